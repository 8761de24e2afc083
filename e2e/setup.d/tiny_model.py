"""Writes a tiny Qwen3 with random weights and a real tokenizer: `tiny_model.py TOKENIZER OUT`.

Real engines run it in milliseconds. It writes random plain English words: all other rows of its output layer are zero, so that
answers are text that any tokenizer reads back, and end only by their length. Weights are spread far enough for the next word to
depend on the prompt.
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

VOCABULARY = 151_936
END_OF_TEXT, END_OF_TURN = 151_643, 151_645


def main(tokenizer: Path, out: Path) -> None:
    torch.manual_seed(20)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=32,
            max_position_embeddings=4096,
            tie_word_embeddings=False,
            bos_token_id=END_OF_TEXT,
            eos_token_id=END_OF_TURN,
        )
    )
    with torch.no_grad():
        model.lm_head.weight.mul_(words(tokenizer).unsqueeze(1))
        model.model.embed_tokens.weight.mul_(20)
        for name, weight in model.named_parameters():
            if ".layers." in name and weight.dim() == 2:
                weight.mul_(8)
    model.to(torch.bfloat16).save_pretrained(out)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(tokenizer / name, out)
    generation = {"eos_token_id": [END_OF_TURN, END_OF_TEXT], "pad_token_id": END_OF_TEXT}
    (out / "generation_config.json").write_text(json.dumps(generation))


def words(tokenizer: Path) -> torch.Tensor:
    """1 for the tokens that are a space and a lower-case English word, 0 for the others."""
    vocabulary = json.loads((tokenizer / "tokenizer.json").read_text())["model"]["vocab"]
    kept = torch.zeros(VOCABULARY)
    for piece, token in vocabulary.items():
        word = piece[1:]
        if piece[0] == "\u0120" and word.isascii() and word.isalpha() and word.islower() and 3 <= len(word) <= 8:
            kept[token] = 1
    return kept


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

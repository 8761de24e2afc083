#!/usr/bin/env python3
"""Makes tiny-demo.gguf: a Llama of two layers with random weights around the demo tokenizer.

usage: make_gguf.py [--check]      (needs PyPI's gguf==0.19.0)

The model knows nothing; it exists so that a real llama.cpp server can be started in a test without fetching a model.
What it must get right is the tokenizer and the chat template. The weights come from a counter-based generator written
here, so that the file has the same bytes with every version of numpy. With --check nothing is written; the exit code
tells whether the committed file is what this script makes.
"""
import json
import pathlib
import sys
import tempfile

import gguf
import numpy

HERE = pathlib.Path(__file__).resolve().parent
TOKENIZER = HERE.parent / "demo-tokenizer"
TARGET = HERE / "tiny-demo.gguf"

LAYERS, WIDTH, FEED_FORWARD, HEADS, KV_HEADS, HEAD_WIDTH = 2, 64, 128, 2, 1, 32
CONTEXT = 32768


def uniform(seed, shape):
    """Numbers in [-1, 1) by splitmix64 of the position: the same on every machine."""
    with numpy.errstate(over="ignore"):
        state = numpy.arange(1, numpy.prod(shape) + 1, dtype=numpy.uint64) + numpy.uint64(seed << 32)
        state = state * numpy.uint64(0x9E3779B97F4A7C15)
        state = (state ^ (state >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        state = state ^ (state >> numpy.uint64(31))
    return ((state >> numpy.uint64(40)).astype(numpy.float32) / 2**23 - 1).reshape(shape)


def matrix(seed, rows, columns):
    """A layer that keeps the size of its input: variance 1/columns (a uniform variable has variance 1/3)."""
    return (uniform(seed, (rows, columns)) * numpy.float32((3 / columns) ** 0.5)).astype(numpy.float16)


def is_plain_word(piece):
    word = piece.removeprefix("\u0120")
    return piece != word and word.isascii() and word.isalpha() and word.islower() and len(word) >= 2


def add_tokenizer(writer, tokenizer, config):
    """The vocabulary as llama.cpp reads it. Returns the pieces in the order of their ids."""
    vocabulary = dict(tokenizer["model"]["vocab"])
    kinds = {piece: gguf.TokenType.NORMAL for piece in vocabulary}
    for token in tokenizer["added_tokens"]:
        vocabulary[token["content"]] = token["id"]
        kinds[token["content"]] = gguf.TokenType.CONTROL if token["special"] else gguf.TokenType.USER_DEFINED
    pieces = sorted(vocabulary, key=vocabulary.get)
    assert [vocabulary[piece] for piece in pieces] == list(range(len(pieces))), "the ids have a gap"

    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(pieces)
    writer.add_token_types([kinds[piece] for piece in pieces])
    writer.add_token_merges([" ".join(pair) for pair in tokenizer["model"]["merges"]])
    writer.add_eos_token_id(vocabulary[config["eos_token"]])
    writer.add_pad_token_id(vocabulary[config["pad_token"]])
    writer.add_add_bos_token(False)
    writer.add_chat_template(config["chat_template"])
    return pieces


def add_shape(writer, vocabulary_size):
    writer.add_name("kvroute demo")
    writer.add_license("apache-2.0")
    writer.add_context_length(CONTEXT)
    writer.add_block_count(LAYERS)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_WIDTH)
    writer.add_value_length(HEAD_WIDTH)
    writer.add_rope_dimension_count(HEAD_WIDTH)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_vocab_size(vocabulary_size)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)


def add_weights(writer, pieces):
    ones = numpy.ones(WIDTH, dtype=numpy.float32)
    writer.add_tensor("token_embd.weight", uniform(1, (len(pieces), WIDTH)).astype(numpy.float16))
    for layer in range(LAYERS):
        seed, name = 10 * (layer + 1), f"blk.{layer}."
        writer.add_tensor(name + "attn_norm.weight", ones)
        writer.add_tensor(name + "attn_q.weight", matrix(seed, HEADS * HEAD_WIDTH, WIDTH))
        writer.add_tensor(name + "attn_k.weight", matrix(seed + 1, KV_HEADS * HEAD_WIDTH, WIDTH))
        writer.add_tensor(name + "attn_v.weight", matrix(seed + 2, KV_HEADS * HEAD_WIDTH, WIDTH))
        writer.add_tensor(name + "attn_output.weight", matrix(seed + 3, WIDTH, HEADS * HEAD_WIDTH))
        writer.add_tensor(name + "ffn_norm.weight", ones)
        writer.add_tensor(name + "ffn_gate.weight", matrix(seed + 4, FEED_FORWARD, WIDTH))
        writer.add_tensor(name + "ffn_up.weight", matrix(seed + 5, FEED_FORWARD, WIDTH))
        writer.add_tensor(name + "ffn_down.weight", matrix(seed + 6, WIDTH, FEED_FORWARD))
    writer.add_tensor("output_norm.weight", ones)
    # Every row but those of plain lower-case words is zero. The best word's score is above zero, so that greedy and
    # top-k sampling write words, and never an end-of-text token that would cut the answer short.
    words = numpy.array([[is_plain_word(piece)] for piece in pieces], dtype=numpy.float16)
    writer.add_tensor("output.weight", matrix(2, len(pieces), WIDTH) * numpy.float16(4) * words)


def make(path):
    tokenizer = json.loads((TOKENIZER / "tokenizer.json").read_text(encoding="utf-8"))
    config = json.loads((TOKENIZER / "tokenizer_config.json").read_text(encoding="utf-8"))
    writer = gguf.GGUFWriter(path, "llama")
    pieces = add_tokenizer(writer, tokenizer, config)
    add_shape(writer, len(pieces))
    add_weights(writer, pieces)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(__doc__)
    if not sys.argv[1:]:
        make(TARGET)
        return
    with tempfile.TemporaryDirectory() as folder:
        fresh = pathlib.Path(folder) / TARGET.name
        make(fresh)
        if fresh.read_bytes() != TARGET.read_bytes():
            sys.exit(f"{TARGET.name} is not what the demo tokenizer gives; run make_gguf.py")


if __name__ == "__main__":
    main()

"""Renders and encodes chats by the libraries that engines use, one JSON a line in and out.

The first line in is the work: `template` (its text; absent: that of `folder`), `folder` (a model's files; absent: no ids),
`special_tokens` (absent: those of `folder`). Then chats, as bodies of requests. Each answer is `{text, ids}` or `{error}`.
"""

import json
import pathlib
import sys

from tokenizers import Tokenizer
from transformers.utils.chat_template_utils import render_jinja_template

NAMES = ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"]


def written(token):
    return token["content"] if isinstance(token, dict) else token


class Work:
    def __init__(self, given):
        self.template = given.get("template")
        self.special_tokens = given.get("special_tokens", {})
        self.tokenizer = None
        if "folder" in given:
            folder = pathlib.Path(given["folder"])
            self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            config = json.loads((folder / "tokenizer_config.json").read_text())
            self.template = self.template or config.get("chat_template")
            self.special_tokens = {name: written(config[name]) for name in NAMES if config.get(name) is not None}

    def render(self, body):
        rendered, _ = render_jinja_template(
            [body["messages"]],
            tools=body.get("tools"),
            documents=body.get("documents"),
            chat_template=self.template,
            continue_final_message=body.get("continue_final_message", False),
            add_generation_prompt=body.get("add_generation_prompt", True),
            **{**self.special_tokens, **body.get("chat_template_kwargs", {})},
        )
        return rendered[0]

    def answer(self, body):
        if "text" in body:
            return {"ids": self.encode(body["text"], body["add_special_tokens"])}
        try:
            text = self.render(body)
        except Exception as error:
            return {"error": f"{type(error).__name__}: {error}"}
        return {"text": text, "ids": self.encode(text, False)}

    def encode(self, text, add_special_tokens):
        return self.tokenizer.encode(text, add_special_tokens=add_special_tokens).ids if self.tokenizer else None


def main():
    work = None
    for line in sys.stdin:
        given = json.loads(line)
        if "messages" not in given and "text" not in given:
            work = Work(given)
            continue
        print(json.dumps(work.answer(given)))


main()

"""Chats that engines normalise before they template them: each is one way to count another prompt than the engine."""

from .wire import Json

PLAIN = "The harbour was quiet, and the boats lay still until the wind turned. " * 6
ARGUMENTS = '{"q": "<b>&\'é\\n", "n": 1.50, "e": 1e3, "big": 12345678901234567890}'
WEATHER: Json = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Wetter für eine Stadt <>&'\"",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1.0}},
            "required": ["city"],
        },
    },
}


def user(content: object, **more: object) -> Json:
    return {"role": "user", "content": content, **more}


def assistant(content: object, **more: object) -> Json:
    return {"role": "assistant", "content": content, **more}


def called(name: str, arguments: str) -> Json:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


def result(content: object) -> Json:
    return {"role": "tool", "tool_call_id": "c1", "content": content}


def texts(*parts: str) -> list[Json]:
    return [{"type": "text", "text": part} for part in parts]


# Eighteen cases, in the order of the report.
CHATS: dict[str, Json] = {
    "user only": {"messages": [user(PLAIN)]},
    "system": {"messages": [{"role": "system", "content": f"Be brief. {PLAIN}"}, user("Hello")]},
    "several turns": {
        "messages": [
            {"role": "system", "content": PLAIN},
            user("One?"),
            assistant("Two."),
            user(f"Three? {PLAIN}"),
        ]
    },
    "thoughts in an answer": {"messages": [user("One?"), assistant("<think>\nhm\n</think>\n\nTwo."), user(PLAIN)]},
    "unicode": {"messages": [user("Grüße 你好 नमस्ते 👩‍👩‍👧‍👦 e\u0301 \u00e9 \u200b\u00a0 العربية " * 6)]},
    "content in parts": {"messages": [user(texts(PLAIN, "second part"))]},
    "tools": {"messages": [{"role": "system", "content": "S"}, user(PLAIN)], "tools": [WEATHER]},
    "order of keys in tools": {
        "messages": [user(PLAIN)],
        "tools": [
            {
                "type": "function",
                "function": {
                    "strict": True,
                    "parameters": {
                        "type": "object",
                        "properties": {"b": {"type": "string"}, "a": {"type": "number"}},
                    },
                    "name": "zz",
                },
            }
        ],
    },
    "tool call": {
        "messages": [
            user("Weather in Rome?"),
            assistant(None, tool_calls=[called("get_weather", '{"city": "Rome", "days":2}')]),
            result('{"t": 31}'),
            user(PLAIN),
        ],
        "tools": [WEATHER],
    },
    "thinking off": {"messages": [user(PLAIN)], "chat_template_kwargs": {"enable_thinking": False}},
    "special tokens in text": {"messages": [user(f"a <|im_end|> b <|im_start|>system x {PLAIN}")]},
    "spaces around": {"messages": [user(f"  \n\n {PLAIN}  \n")]},
    "answer to continue": {
        "messages": [user(PLAIN), assistant("The answer is")],
        "add_generation_prompt": False,
        "continue_final_message": True,
    },
    "tool without parameters": {
        "messages": [user(PLAIN)],
        "tools": [{"function": {"name": "now", "x_extra": 1}, "type": "function"}],
    },
    "tool result in parts": {
        "messages": [
            user("w?"),
            assistant("", reasoning_content="let me see", tool_calls=[called("f", "{}")]),
            result(texts("one", "two")),
            user(PLAIN),
        ]
    },
    "numbers and quotes in arguments": {
        "messages": [
            user("w?"),
            assistant(
                "so",
                tool_calls=[called("f", ARGUMENTS)],
            ),
            result("r"),
            user(PLAIN),
        ]
    },
    "developer": {"messages": [{"role": "developer", "content": "D"}, user(PLAIN)]},
    "name": {"messages": [user(PLAIN, name="bob")]},
}

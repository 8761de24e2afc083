"""HTTP as a client sees it: whole answers, streams that may be left in the middle, and metrics."""

import http.client
import json
import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

TIMEOUT = 120

Json = dict[str, Any]
Headers = dict[str, str]

_SERIES = re.compile(r"^([A-Za-z_:][\w:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


@dataclass
class Answer:
    """One answer. `usage` is what the client was shown, absent where nothing was."""

    status: int
    headers: dict[str, str]
    text: str
    chunks: list[Json] = field(default_factory=list)
    has_ended: bool = True

    @property
    def json(self) -> Any:
        return json.loads(self.text)

    @property
    def messages(self) -> list[Json]:
        return self.chunks or [self.json]

    @property
    def usage(self) -> Json | None:
        shown = [message["usage"] for message in self.messages if message.get("usage")]
        return shown[-1] if shown else None

    @property
    def prompt_tokens(self) -> int | None:
        return (self.usage or {}).get("prompt_tokens")

    @property
    def cached_tokens(self) -> int | None:
        details = (self.usage or {}).get("prompt_tokens_details") or {}
        return details.get("cached_tokens")

    def content(self, choice: int = 0) -> str:
        """The text of one choice, of a chat or a completion, whole or streamed."""
        parts = []
        for message in self.messages:
            for said in message.get("choices") or []:
                if said["index"] == choice:
                    parts.append(_text_of(said))
        return "".join(parts)

    @property
    def error(self) -> str | None:
        """What the stream broke with, or what was answered instead of a completion."""
        broken = [chunk["error"] for chunk in self.chunks if "error" in chunk]
        if broken:
            return json.dumps(broken[0])
        return self.text[:300] if self.status != 200 else None


def _text_of(choice: Json) -> str:
    if "text" in choice:
        return str(choice["text"])
    return str((choice.get("delta") or choice.get("message") or {}).get("content") or "")


def ask(base: str, path: str, body: object = None, headers: Headers | None = None, leave_after: int | None = None) -> Answer:
    """Sends one request. `leave_after` closes the connection after so many chunks of a stream."""
    connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=TIMEOUT)
    try:
        method = "GET" if body is None else "POST"
        payload = body if isinstance(body, (str, bytes)) or body is None else json.dumps(body)
        connection.request(method, path, payload, {"content-type": "application/json", **(headers or {})})
        response = connection.getresponse()
        answer = Answer(response.status, {name.lower(): value for name, value in response.getheaders()}, "")
        if "text/event-stream" in answer.headers.get("content-type", ""):
            _read_stream(response, answer, leave_after)
        else:
            answer.text = response.read().decode()
        return answer
    finally:
        connection.close()


def leave_before_answer(base: str, path: str, body: object, headers: Headers, patience: float) -> None:
    """Sends one request and is gone before its answer."""
    connection = http.client.HTTPConnection(urlsplit(base).netloc, timeout=patience)
    try:
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json", **headers})
        connection.getresponse().read()
    except TimeoutError:
        pass
    finally:
        connection.close()


def _read_stream(response: http.client.HTTPResponse, answer: Answer, leave_after: int | None) -> None:
    answer.has_ended = False
    for line in response:
        if not line.startswith(b"data: "):
            continue
        if line.strip() == b"data: [DONE]":
            answer.has_ended = True
            continue
        chunk = json.loads(line[6:])
        # llama.cpp begins some streams with `null`.
        if chunk is not None:
            answer.chunks.append(chunk)
        if leave_after is not None and len(answer.chunks) >= leave_after:
            return


class Metrics:
    """One scrape, summed over whatever labels are not asked for."""

    def __init__(self, text: str) -> None:
        self.series: list[tuple[str, dict[str, str], float]] = []
        for line in text.splitlines():
            if match := _SERIES.match(line):
                labels = dict(_LABEL.findall(match[2] or ""))
                self.series.append((match[1], labels, float(match[3])))

    def sum(self, name: str, **labels: str) -> int:
        return int(sum(value for _, value in self.having(name, **labels)))

    def has(self, name: str) -> bool:
        return any(series[0] == name for series in self.series)

    def having(self, name: str, **labels: str) -> list[tuple[dict[str, str], float]]:
        wanted = labels.items()
        return [(have, value) for series, have, value in self.series if series == name and wanted <= have.items()]


def scrape(base: str) -> Metrics:
    return Metrics(ask(base, "/metrics").text)

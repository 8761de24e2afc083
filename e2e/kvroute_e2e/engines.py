"""The real engines: how each is started, emptied, and what it counts itself."""

import json
from dataclasses import dataclass
from pathlib import Path

from .process import Process, free_ports, wait_until
from .wire import Json, Metrics, ask, scrape

MODEL = "tiny-qwen3"
# One thread an engine, and nothing fetched: four of them share the machine.
ALONE = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}


@dataclass(frozen=True)
class Count:
    """What an engine has counted since its start, in tokens."""

    prompt: int
    cached: int

    def __sub__(self, earlier: "Count") -> "Count":
        return Count(self.prompt - earlier.prompt, self.cached - earlier.cached)

    def __add__(self, other: "Count") -> "Count":
        return Count(self.prompt + other.prompt, self.cached + other.cached)


NOTHING = Count(0, 0)


class Engine:
    """One engine at one address. `block` is None where the cache has no blocks."""

    kind: str
    block: int | None
    # Whether the router is told where the events are, instead of finding it out.
    names_events = False
    role = "aggregated"

    def __init__(self, name: str, root: Path, logs: Path) -> None:
        self.name, self.root, self.log = name, root, logs / f"{name}.log"
        self.port, self.events, self.replay = free_ports(3)
        self.process: Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def worker_id(self) -> str:
        """The router calls a worker by its address unless it is told another name."""
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.process = Process.start(self.name, self.command(), self.log, self.environment())

    def is_running(self) -> bool:
        return self.process is not None and self.process.is_running()

    @property
    def traits(self) -> Json:
        """What a later run needs to know of one that runs on."""
        assert self.process
        return {"ports": [self.port, self.events, self.replay], "pid": self.process.pid}

    def adopt(self, traits: Json) -> bool:
        """Takes over what an earlier run has started, if it still runs."""
        process = Process(self.name, self.log, traits["pid"])
        if not process.is_running():
            return False
        self.process = process
        self.port, self.events, self.replay = traits["ports"]
        return True

    def wait_until_ready(self) -> None:
        wait_until(f"{self.name} answers", self._is_ready)

    def stop(self) -> None:
        if self.process:
            self.process.stop()

    def count(self) -> Count:
        return self.read(scrape(self.url))

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def read(self, metrics: Metrics) -> Count:
        raise NotImplementedError

    def running(self) -> int:
        """Requests that it works on or lets wait."""
        raise NotImplementedError

    def is_idle(self) -> bool:
        return self.running() == 0

    def version(self) -> str:
        raise NotImplementedError

    def ids_of(self, chat: Json) -> list[int]:
        """The prompt ids of a chat, as the engine's own endpoint tells them."""
        body = {"model": MODEL, "add_generation_prompt": True, **chat}
        return list(ask(self.url, "/tokenize", body).json["tokens"])

    def _is_ready(self) -> bool:
        assert self.process
        self.process.check()
        try:
            return ask(self.url, "/v1/models").status == 200 and ask(self.url, "/health").status == 200
        except OSError:
            return False


class Publishing(Engine):
    """An engine whose cache has blocks and tells of them by KV events."""

    block: int

    def empty_cache(self) -> None:
        raise NotImplementedError

    def publisher(self) -> Json:
        """KV events as both kinds are told to publish them."""
        return {
            "publisher": "zmq",
            "endpoint": f"tcp://*:{self.events}",
            "replay_endpoint": f"tcp://*:{self.replay}",
            "topic": "kv-events",
        }


class Vllm(Publishing):
    """vLLM on the CPU, whose blocks are multiples of 32 tokens there."""

    kind, block, blocks = "vllm", 32, 97

    def command(self) -> list[str]:
        return [
            str(self.root / "vllm/bin/vllm"), "serve", str(self.root / "model"),
            "--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(self.port),
            "--dtype", "float32", "--enforce-eager", "--max-model-len", "2048", "--max-num-seqs", "8",
            "--block-size", str(self.block), "--num-gpu-blocks-override", str(self.blocks),
            "--enable-prefix-caching", "--enable-prompt-tokens-details",
            "--enable-auto-tool-choice", "--tool-call-parser", "hermes",
            "--kv-events-config", json.dumps({"enable_kv_cache_events": True, **self.publisher()}),
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        # The developer mode has the route that empties the cache.
        return {
            "VLLM_SERVER_DEV_MODE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "VLLM_HOST_IP": "127.0.0.1", "VLLM_NO_USAGE_STATS": "1", **ALONE,
        }  # fmt: skip

    def read(self, metrics: Metrics) -> Count:
        return Count(metrics.sum("vllm:prefix_cache_queries_total"), metrics.sum("vllm:prefix_cache_hits_total"))

    def running(self) -> int:
        metrics = scrape(self.url)
        return metrics.sum("vllm:num_requests_running") + metrics.sum("vllm:num_requests_waiting")

    def version(self) -> str:
        return str(ask(self.url, "/version").json["version"])

    def empty_cache(self) -> None:
        ask(self.url, "/reset_prefix_cache", "")


class VllmLeg(Vllm):
    """A vLLM that hands KV over to another one, or takes it, by NIXL over loopback."""

    def __init__(self, name: str, root: Path, logs: Path, role: str) -> None:
        super().__init__(name, root, logs)
        self.role = role
        (self.side_channel,) = free_ports(1)

    def command(self) -> list[str]:
        kv_role = "kv_producer" if self.role == "prefill" else "kv_consumer"
        transfer = {"kv_connector": "NixlConnector", "kv_role": kv_role, "kv_buffer_device": "cpu"}
        return [*super().command(), "--kv-transfer-config", json.dumps(transfer)]

    def environment(self) -> dict[str, str]:
        side_channel = {
            "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
            "VLLM_NIXL_SIDE_CHANNEL_PORT": str(self.side_channel),
            "UCX_TLS": "tcp,self",
        }
        return {**super().environment(), **side_channel}

    def transferred(self) -> int:
        """Tokens whose KV came from the other engine."""
        return scrape(self.url).sum("vllm:external_prefix_cache_hits_total")


class Sglang(Publishing):
    """SGLang on the CPU, by its plain torch backends."""

    kind, block = "sglang", 16

    def command(self) -> list[str]:
        return [
            str(self.root / "sglang/bin/python"), "-m", "sglang.launch_server", "--model-path", str(self.root / "model"),
            "--served-model-name", MODEL, "--host", "127.0.0.1", "--port", str(self.port),
            "--device", "cpu", "--attention-backend", "torch_native", "--sampling-backend", "pytorch",
            "--grammar-backend", "none", "--dtype", "float32", "--disable-overlap-schedule", "--skip-server-warmup",
            "--mem-fraction-static", "0.3", "--page-size", str(self.block), "--max-total-tokens", "3072",
            "--context-length", "2048", "--max-running-requests", "8", "--enable-metrics", "--enable-cache-report",
            "--kv-events-config", json.dumps(self.publisher()),
        ]  # fmt: skip

    def environment(self) -> dict[str, str]:
        return ALONE

    def read(self, metrics: Metrics) -> Count:
        # The same tokens are counted once by the tier that had them and once as their total, in some releases.
        name = "sglang:cached_tokens_total"
        totals = metrics.having(name, cache_source="total") or metrics.having(name)
        return Count(metrics.sum("sglang:prompt_tokens_total"), int(sum(value for _, value in totals)))

    def running(self) -> int:
        loads = ask(self.url, "/v1/loads").json["loads"]
        return sum(load["num_running_reqs"] + load["num_waiting_reqs"] for load in loads)

    def version(self) -> str:
        return str(ask(self.url, "/server_info").json["version"])

    def ids_of(self, chat: Json) -> list[int]:
        # This endpoint refuses what chats may say: that no turn of the assistant is to be opened.
        return super().ids_of({**chat, "add_generation_prompt": True})

    def empty_cache(self) -> None:
        ask(self.url, "/flush_cache", "")


class LlamaCpp(Engine):
    """llama.cpp's server: a cache by slot, in single tokens, and no events."""

    kind, block = "llama.cpp", None

    def command(self) -> list[str]:
        return [
            str(self.root / "llama-server"), "--model", str(self.root / "model.gguf"), "--alias", MODEL,
            "--host", "127.0.0.1", "--port", str(self.port), "--ctx-size", "8192", "--parallel", "4",
            "--threads", "1", "--threads-batch", "1", "--threads-http", "4",
            "--jinja", "--metrics", "--slots", "--props", "--no-warmup", "--no-ui",
        ]  # fmt: skip

    def read(self, metrics: Metrics) -> Count:
        cached = metrics.sum("llamacpp:prompt_tokens_cached_total")
        return Count(metrics.sum("llamacpp:prompt_tokens_total") + cached, cached)

    def running(self) -> int:
        return scrape(self.url).sum("llamacpp:requests_processing")

    def version(self) -> str:
        return str(ask(self.url, "/props").json["build_info"])

    def ids_of(self, chat: Json) -> list[int]:
        rendered = ask(self.url, "/apply-template", chat).json["prompt"]
        text = {"content": rendered, "add_special": True, "parse_special": True}
        return list(ask(self.url, "/tokenize", text).json["tokens"])

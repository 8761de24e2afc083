"""Programs that run for as long as they are wanted, each with its log in a file."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

START_SECONDS = 600
STOP_SECONDS = 60


def free_ports(count: int) -> list[int]:
    """Ports that nobody has at this moment."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_until(what: str, holds: Callable[[], bool], seconds: float = START_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"after {seconds:.0f} s still not so: {what}")
        time.sleep(0.1)


class Process:
    """A program in a process group of its own, because engines start workers that must end with them."""

    def __init__(self, name: str, log: Path, pid: int) -> None:
        self.name, self.log, self.pid = name, log, pid

    @classmethod
    def start(cls, name: str, command: list[str], log: Path, environment: dict[str, str] | None = None) -> "Process":
        with log.open("ab") as file:
            child = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )
        return cls(name, log, child.pid)

    def is_running(self) -> bool:
        """Also of one that an earlier run has started and left, so not by what only a parent is told."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        return state != "Z"

    def check(self) -> None:
        if not self.is_running():
            last = self.log.read_text(errors="replace").splitlines()[-15:]
            raise RuntimeError("\n".join([f"{self.name} has ended; {self.log} ends so:", *last]))

    def stop(self) -> None:
        self._signal(signal.SIGTERM)
        try:
            wait_until(f"{self.name} has ended", lambda: not self.is_running(), STOP_SECONDS)
        except TimeoutError:
            self.kill()

    def kill(self) -> None:
        """Ends it as a crash would."""
        self._signal(signal.SIGKILL)
        wait_until(f"{self.name} is gone", lambda: not self.is_running(), STOP_SECONDS)

    def _signal(self, number: int) -> None:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            pass

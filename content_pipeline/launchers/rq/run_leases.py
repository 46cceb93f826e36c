"""Who executes a run that is about no job: a lease in Redis, for the manifest has none for it.

Weaker than the manifest's: a Redis that loses its memory loses these too. Whoever holds one writes it again every
second, and a run that was started before is left alone for one round of announcing, so that its holder can.
"""

from __future__ import annotations

from content_pipeline.launchers.rq.redis_server import RedisServer

LEASES, SEEN = "content-ai:run-lease:", "content-ai:run-seen:"
SEEN_S = 60


class RunLeases:
    def __init__(self, server: RedisServer, worker_id: str, lease_s: float) -> None:
        self._server = server
        self._worker_id = worker_id
        self._lease_ms = max(1000, round(lease_s * 1000))

    def claim(self, run_id: str, started_before: bool) -> bool:
        with self._server.named_errors():
            connection = self._server.connection
            if connection.exists(LEASES + run_id):
                return False
            if started_before and connection.set(SEEN + run_id, "", nx=True, ex=SEEN_S):
                return False
            return bool(connection.set(LEASES + run_id, self._worker_id, nx=True, px=self._lease_ms))

    def renew(self, run_id: str) -> bool:
        """False when another worker has it by now."""
        with self._server.named_errors():
            holder = self._server.connection.get(LEASES + run_id)
            if holder is not None and _text(holder) != self._worker_id:
                return False
            self._server.connection.set(LEASES + run_id, self._worker_id, px=self._lease_ms)
            return True

    def release(self, run_id: str) -> None:
        with self._server.named_errors():
            self._server.connection.delete(LEASES + run_id, SEEN + run_id)


def holder_of(server: RedisServer, run_id: str) -> str | None:
    with server.named_errors():
        holder = server.connection.get(LEASES + run_id)
        return None if holder is None else _text(holder)


def leased_runs(server: RedisServer) -> frozenset[str]:
    with server.named_errors():
        return frozenset(_text(key).removeprefix(LEASES) for key in server.connection.scan_iter(f"{LEASES}*"))


def _text(value: bytes | str) -> str:
    return value.decode() if isinstance(value, bytes) else value

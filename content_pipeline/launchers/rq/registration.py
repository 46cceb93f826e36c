"""Our workers as RQ's own tools show them (`rq info`, its dashboards). Nothing here decides anything."""

from __future__ import annotations

from collections.abc import Sequence

from rq import Queue, Worker
from rq.serializers import JSONSerializer

from content_pipeline.launchers.rq.redis_server import RedisServer

EXPIRES_S = 30


class Registration:
    def __init__(self, server: RedisServer, queues: Sequence[Queue], name: str) -> None:
        self._server = server
        with server.named_errors():
            self._worker = Worker(
                list(queues),
                name=name,
                connection=server.connection,
                worker_ttl=EXPIRES_S,
                serializer=JSONSerializer,
            )
        server.keep_timeouts()

    def renew(self, is_busy: bool) -> None:
        """Also where Redis has lost its memory."""
        with self._server.named_errors():
            if not self._server.connection.exists(self._worker.key):
                self._worker.register_birth()  # type: ignore[no-untyped-call]
            self._worker.set_state("busy" if is_busy else "idle")
            self._worker.heartbeat()

    def end(self) -> None:
        with self._server.named_errors():
            self._worker.register_death()  # type: ignore[no-untyped-call]


def has_registered_workers(server: RedisServer, queues: Sequence[Queue]) -> bool:
    """Whether anybody looks into one of these queues, by what is registered and has not expired."""
    with server.named_errors():
        return any(server.connection.exists(key) for queue in queues for key in Worker.all_keys(queue=queue))

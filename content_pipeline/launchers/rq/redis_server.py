"""The Redis or Valkey server that carries announcements: one connection, and errors with names that workers act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from content_pipeline.errors import BadSettings, RedisAway
from content_pipeline.settings import Settings

TIMEOUT_S = 5.0
CONNECT_S = 2.0  # a worker that waits for Redis must not forget the leases of what it works on
CHECK_S = 15


class RedisServer:
    """Nothing is asked of the server before it is used."""

    def __init__(self, settings: Settings) -> None:
        if settings.redis_url is None:
            raise BadSettings(
                "`launcher.engine` = 'rq', but `redis_url` is not set",
                hint="Let `redis_url` (CONTENT_AI_REDIS_URL) be a URL such as redis://:password@host:6379/0.",
            )
        self._shown = str(settings.redis_url)
        self.connection = redis.Redis.from_url(
            settings.redis_url.reveal(),
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=CONNECT_S,
            health_check_interval=CHECK_S,
            retry=Retry(NoBackoff(), 1),  # a connection that was closed meanwhile is opened again
        )

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """No error of the client itself leaves: its text may name more than the server."""
        try:
            yield
        except redis.exceptions.AuthenticationError as error:
            raise RedisAway(f"the Redis server {self._shown} refuses the password") from error
        except redis.exceptions.RedisError as error:
            raise RedisAway(f"the Redis server {self._shown} cannot be used: {_first_line(error)}") from error

    def keep_timeouts(self) -> None:
        """RQ's worker, which waits for long at a time, raises that of the connection it is given."""
        self.connection.connection_pool.connection_kwargs["socket_timeout"] = TIMEOUT_S

    def expect(self) -> None:
        """Says now whether it can be reached."""
        with self.named_errors():
            self.connection.ping()


def require_postgres(settings: Settings) -> None:
    """Several hosts need one manifest and one set of Dagster's records that all of them reach."""
    if settings.manifest_url.is_sqlite or settings.dagster_storage != "postgres":
        raise BadSettings(
            "`launcher.engine` = 'rq' needs the manifest and Dagster's records in Postgres, which all hosts reach",
            hint="Let `db` (CONTENT_AI_DB) be a postgresql:// URL, and set `dagster_storage` to 'postgres'.",
        )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__

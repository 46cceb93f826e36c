"""The RQ queues in which runs wait for a worker: one for each kind of work, requirement and class of priority.

An announcement is an RQ job whose id is the run's, with no arguments. RQ's registries of started and failed jobs are
not used: the manifest knows what became of a run, and sooner.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from rq import Queue
from rq.exceptions import DequeueTimeout, DuplicateJobError
from rq.job import Job
from rq.serializers import JSONSerializer

from content_pipeline.execution.job_kinds import HANDLERS, handler_of_launch
from content_pipeline.execution.launch import Launch
from content_pipeline.launchers.rq.redis_server import RedisServer

PREFIX = "content-ai"
OTHER = "other"  # runs that are about no job: the best-of, the report, maintenance
KINDS: tuple[str, ...] = (*(handler.kind for handler in HANDLERS), OTHER)
CLASSES = ("high", "normal", "low")
MESSAGE = "content_pipeline.launchers.rq.announcements.execute_run"
FOR_EVER = -1


def execute_run() -> None:
    """What an announcement names. Never called by our workers, which need no more than the id."""
    raise RuntimeError("This queue is for `content-ai worker --engine rq`: RQ's own worker cannot execute its runs.")


def kind_of(launch: Launch) -> str:
    handler = handler_of_launch(launch)
    return OTHER if handler is None else handler.kind


def class_of(priority: int) -> str:
    """A person's own wish goes first; new recordings come before what can wait for the night."""
    if priority == 0:
        return "normal"
    return "high" if priority > 0 else "low"


def queue_name(kind: str, requires: str | None, priority_class: str) -> str:
    return ":".join([PREFIX, kind, *([] if requires is None else [requires]), priority_class])


def queue_names(kinds: Sequence[str], capabilities: Sequence[str] = ()) -> list[str]:
    """In the order in which a worker looks into them: the high ones of all kinds first, and what few can do."""
    requirements = (*capabilities, None)
    return [queue_name(kind, name, one) for one in CLASSES for name in requirements for kind in kinds]


class Announcements:
    """`kinds` and `capabilities`: which runs are taken; whatever is announced or forgotten may be any."""

    def __init__(self, server: RedisServer, kinds: Sequence[str] = KINDS, capabilities: Sequence[str] = ()) -> None:
        self._server = server
        self.queues = [self._queue(name) for name in queue_names(kinds, capabilities)]

    def announce(self, launch: Launch, requires: str | None = None) -> None:
        """Once, however many say it. What RQ still knows of an announcement that was lost is in the way, and goes.

        So does one in the queue of another requirement, where nobody may be listening.
        """
        queue = self._queue(queue_name(kind_of(launch), requires, class_of(launch.priority)))
        with self._server.named_errors():
            if queue.get_job_position(launch.run_id) is not None:
                return
            self.forget(launch.run_id)
            with contextlib.suppress(DuplicateJobError):  # another process was first
                queue.enqueue_call(MESSAGE, timeout=FOR_EVER, job_id=launch.run_id, description="a run", unique=True)

    def take(self, wait_s: int | None) -> str | None:
        """The run that is to be executed next; gone from the queue, so that it is lost if the taker dies now.

        `wait_s` None asks once.
        """
        connection = self._server.connection
        with self._server.named_errors():
            try:
                found = Queue.dequeue_any(self.queues, wait_s, connection, serializer=JSONSerializer)
            except DequeueTimeout:
                return None
            if found is None:
                return None
            connection.delete(found[0].key)
            return found[0].id

    def run_ids(self) -> frozenset[str]:
        with self._server.named_errors():
            return frozenset(run_id for queue in self._all() for run_id in queue.job_ids)

    def count(self) -> int:
        """Of those that this one takes."""
        with self._server.named_errors():
            return sum(queue.count for queue in self.queues)

    def forget(self, run_id: str) -> None:
        with self._server.named_errors():
            for queue in self._all():
                queue.remove(run_id)
            self._server.connection.delete(Job.key_for(run_id))

    def _all(self) -> list[Queue]:
        """Every queue that was ever used: which requirements there are, nobody knows beforehand."""
        with self._server.named_errors():
            known = Queue.all(self._server.connection, serializer=JSONSerializer)
        return [queue for queue in known if queue.name.startswith(f"{PREFIX}:")]

    def _queue(self, name: str) -> Queue:
        """JSON: RQ's default would let whoever writes into Redis execute code here."""
        return Queue(name, connection=self._server.connection, serializer=JSONSerializer)

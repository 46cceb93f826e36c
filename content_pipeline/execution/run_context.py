"""Under which conditions this process executes a run: whom it reports to, and by which lease it publishes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from content_pipeline.execution.reporter import NullReporter, Reporter
from content_pipeline.manifest.model import Lease


@dataclass(frozen=True)
class RunContext:
    """`lease` is that of the job, if there is one: without it nothing of the job is published.

    `forced` are the stages that a force is about; None means all of them. `refusal`: why nothing may be done in this
    run: its first step ends with it.
    """

    reporter: Reporter = field(default_factory=NullReporter)
    force_id: str | None = None
    forced: tuple[str, ...] | None = None
    cores: int = 1
    lease: Lease | None = None
    refusal: str | None = None


# What Dagster sees is built once, before children are forked; each child executes one run, under its own conditions.
_current: ContextVar[RunContext | None] = ContextVar("run_context", default=None)


def current_run() -> RunContext:
    """The conditions of the run that is being executed here; nobody's, when it is about no job and has no worker."""
    current = _current.get()
    return RunContext() if current is None else current


def has_worker() -> bool:
    """Whether a worker of ours executes the run: it has claimed the job, and commits it."""
    return _current.get() is not None


@contextmanager
def executing(run_context: RunContext) -> Iterator[None]:
    token = _current.set(run_context)
    try:
        yield
    finally:
        _current.reset(token)

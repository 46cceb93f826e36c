"""Bring a folder of recordings up to date, in this process and its children, one Dagster run a video."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.errors import PipelineError, WorkerCrashed, printable
from content_pipeline.launcher.embedded import BuildJob, EmbeddedRuns
from content_pipeline.library.identify import identify
from content_pipeline.library.scan import Scan
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.videos import VideoStore
from content_pipeline.settings import Settings
from content_pipeline.workers.pool import Ended, Pool, Said, Task


@dataclass(frozen=True)
class Outcome:
    """What became of one recording. `stages` maps each finished stage to `computed` or `reused`."""

    path: Path
    key: str | None = None
    status: str = "pending"
    error_code: str | None = None
    error: str | None = None
    hint: str | None = None
    stages: dict[str, str] = field(default_factory=dict)
    outputs: tuple[str, ...] = ()
    seconds: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def no_highlights(self) -> bool:
        return self.status == "succeeded" and self.facts.get("clips") == 0


class Watcher(Protocol):
    def started(self, outcome: Outcome) -> None: ...

    def progressed(self, outcome: Outcome, stage: str, fraction: float) -> None: ...

    def ended(self, outcome: Outcome) -> None: ...


class Batch:
    def __init__(self, settings: Settings, build_job: BuildJob, watcher: Watcher) -> None:
        self._settings = settings
        self._watcher = watcher
        self._runs = EmbeddedRuns(settings, build_job)
        self._videos = VideoStore(open_engine(settings.manifest_url))
        self._open: dict[str, Outcome] = {}
        self._twins: dict[str, list[Path]] = {}
        self._started: dict[str, float] = {}
        self._outcomes: list[Outcome] = []

    @property
    def outcomes(self) -> Sequence[Outcome]:
        """What has ended, and what was under way when the batch was stopped."""
        unfinished = [replace(outcome, status="cancelled") for outcome in self._open.values()]
        return sorted([*self._outcomes, *unfinished], key=lambda outcome: outcome.path)

    def process(self, scan: Scan) -> None:
        """Process every recording of a scan; stops its children when it is interrupted."""
        self._runs.close_abandoned()
        ArtifactStore(self._settings.state_dir.absolute() / "artifacts").sweep()
        self._refuse(scan)
        for event in Pool(self._settings.worker_count).run(self._tasks(scan)):
            if isinstance(event, Said):
                self._hear(event.task.name, event.value)
            elif isinstance(event, Ended):
                self._close(event.task, event.crash)

    def register(self, scan: Scan) -> None:
        """Make every recording a known video, and process nothing."""
        self._refuse(scan)
        for path in scan.recordings:
            if (key := self._identify(path, scan.root)) is not None:
                self._runs.register(key)
                self._end(Outcome(path, key))

    def _refuse(self, scan: Scan) -> None:
        for refused in scan.refused:
            self._end(_failed(Outcome(refused.path), refused.error))

    def _tasks(self, scan: Scan) -> Iterator[Task]:
        """Videos are identified one by one, as slots come free."""
        for path in scan.recordings:
            key = self._identify(path, scan.root)
            if key is None:
                continue
            if key in self._started:
                self._twins.setdefault(key, []).append(path)  # the same content: done once, told twice
                self._tell_twins(key)
                continue
            self._started[key] = time.monotonic()
            self._open[key] = Outcome(path, key, status="running")
            self._watcher.started(self._open[key])
            yield self._runs.task(key)

    def _identify(self, path: Path, root: Path) -> str | None:
        try:
            return identify(path, root, self._videos).key
        except PipelineError as error:
            self._end(_failed(Outcome(path), error))
            return None

    def _hear(self, key: str, message: dict[str, Any]) -> None:
        outcome = self._open[key]
        if message["is"] == "progress":
            self._watcher.progressed(outcome, message["stage"], message["fraction"])
        elif message["is"] == "finished":
            how = "reused" if message["reused"] else "computed"
            self._open[key] = replace(
                outcome,
                stages={**outcome.stages, message["stage"]: how},
                outputs=tuple(message["outputs"]),
                facts={**outcome.facts, **message["facts"]},
            )
            self._watcher.progressed(outcome, message["stage"], 1.0)
        elif message["is"] == "failed":
            self._open[key] = replace(
                outcome,
                status="failed",
                error_code=message["code"],
                error=message["message"],
                hint=message["hint"],
            )
        elif message["is"] == "ended" and message["run_status"] == "SUCCESS":
            self._open[key] = replace(outcome, status="succeeded")

    def _close(self, task: Task, crash: str | None) -> None:
        key = task.name
        outcome = replace(self._open.pop(key), seconds=round(time.monotonic() - self._started[key], 3))
        if outcome.status == "running":
            how = crash if crash is not None else "ended without a result"
            self._runs.child_died(key, how)
            name = printable(outcome.path)
            outcome = _failed(outcome, WorkerCrashed(f"{name}: the worker was {how}; see {task.log_path}"))
        self._end(outcome)
        self._tell_twins(key)

    def _tell_twins(self, key: str) -> None:
        done = next((outcome for outcome in self._outcomes if outcome.key == key), None)
        if done is not None:
            for path in self._twins.pop(key, []):
                self._end(replace(done, path=path, seconds=0.0, stages=dict.fromkeys(done.stages, "reused")))

    def _end(self, outcome: Outcome) -> None:
        self._outcomes.append(outcome)
        self._watcher.ended(outcome)


def _failed(outcome: Outcome, error: PipelineError) -> Outcome:
    return replace(outcome, status="failed", error_code=error.code, error=str(error), hint=error.hint)

"""What is known of an errand while a child carries it, gathered from what the child says."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from content_pipeline.execution.outcome import Outcome
from content_pipeline.execution.runs import RunStatus
from content_pipeline.library.plan import OWN_COPIES
from content_pipeline.manifest.model import Job, JobResult
from content_pipeline.stage import VIDEO_STAGES

SHOWN_FACTS = ("highlights", "events", "clips", "montage_s", "track", "tracks")


@dataclass
class ActiveJob:
    """`launched`: Dagster asked for this run, and looks after it when it must be done again."""

    name: str
    job: Job | None
    outcome: Outcome
    config_hash: str | None = None
    launched: bool = False
    whole: bool = True  # all stages of the video, not some that a person picked
    started_s: float = field(default_factory=time.monotonic)
    stage: str = VIDEO_STAGES[0]  # at which it is, as far as it was heard
    duration_s: float = 0.0  # of the recording, once it is known
    silent_s: float = 0.0  # since it was last heard
    stalled: dict[str, Any] | None = None  # why it was ended, as a failure
    run_id: str | None = None
    run_status: str | None = None
    input_bytes: int = 0
    quick: str | None = None
    full: str | None = None
    lost: bool = False
    stop_by_s: float | None = None  # asked to stop; made to, at this moment
    failure: dict[str, Any] | None = None
    outdated: str | None = None
    stage_keys: dict[str, str] = field(default_factory=dict)
    hashes: dict[str, str] = field(default_factory=dict)
    cost: dict[str, Any] = field(default_factory=dict)
    stats: dict[str, Any] = field(default_factory=dict)
    progress: dict[str, Any] | None = None
    committed: Outcome | None = None  # what came of it, once the manifest knows

    @property
    def succeeded(self) -> bool:
        return self.run_status == RunStatus.SUCCEEDED and self.failure is None

    @property
    def told_everything(self) -> bool:
        """Whether every stage of the video was heard of, and where its outputs are."""
        return self.whole and set(VIDEO_STAGES) <= set(self.stage_keys) and VIDEO_STAGES[-1] in self.cost

    @property
    def stopped(self) -> bool:
        """On purpose: by a wish in the manifest, or in Dagster."""
        return self.stop_by_s is not None or self.run_status == RunStatus.CANCELLED

    @property
    def size_bytes(self) -> int | None:
        """Of the recording, as well as it is known; None when it is about none."""
        if self.job is None:
            return None
        return self.input_bytes if self.input_bytes or self.job.input_size is None else self.job.input_size

    def hear(self, message: dict[str, Any]) -> None:
        self.silent_s = 0.0
        match message["is"]:
            case "identified":
                self.outcome = replace(self.outcome, key=message["key"])
                self.input_bytes = message["bytes"]
            case "run":
                self.run_id = message["run_id"]
            case "progress":
                self.stage = message["stage"]
                self.progress = {"stage": message["stage"], "fraction": round(message["fraction"], 2)}
            case "finished":
                self._hear_of_stage(message)
            case "recalled":
                self.stage_keys[message["stage"]] = message["key"]
                self.outcome = replace(self.outcome, stages={**self.outcome.stages, message["stage"]: "reused"})
            case "outdated":
                self.outdated = message["why"]
            case "failed":
                self.failure = message
            case "ended":
                self.quick, self.full = message["quick"], message["full"]
                self.stats = message["stats"]
                self.run_status = message["run_status"]

    def _hear_of_stage(self, message: dict[str, Any]) -> None:
        how = "reused" if message["reused"] else "computed"
        self.outcome = replace(
            self.outcome,
            stages={**self.outcome.stages, message["stage"]: how},
            outputs=tuple(message["outputs"]),
            written=tuple(message["written"]),
            notes=tuple(message["notes"]),
            facts={**self.outcome.facts, **message["facts"]},
        )
        self.duration_s = message["facts"].get("duration_s", self.duration_s)
        self.stage_keys[message["stage"]] = message["key"]
        if message["config_hash"] is not None:  # a calibration may have been applied since the job was claimed
            self.config_hash = message["config_hash"]
        self.hashes = message["outputs"]
        self.cost[message["stage"]] = {**message["cost"], "bytes": self.input_bytes}

    def result(self) -> JobResult:
        return JobResult(
            video_key=self.outcome.key,
            input_hash_quick=self.quick,
            input_hash_full=self.full,
            input_size=self.input_bytes,
            config_hash=self.config_hash,
            stage_keys=self.stage_keys,
            output_files=list(self.hashes),
            output_hashes=self.hashes,
            results={
                "facts": {name: self.outcome.facts.get(name) for name in SHOWN_FACTS},
                "output_stats": self.stats,
                "notes": list(self.outcome.notes),
                OWN_COPIES: True,
            },
            cost=self.cost,
        )

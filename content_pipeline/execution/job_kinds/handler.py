"""What a kind of job has to say for itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from content_pipeline.execution.child_report import ChildReport
from content_pipeline.execution.launch import Launch
from content_pipeline.execution.messages import WorkEnded
from content_pipeline.execution.reporter import PipeReporter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job
from content_pipeline.settings import Settings
from content_pipeline.stage import StageName
from content_pipeline.stages.context import StageContext


@dataclass(frozen=True)
class Refused:
    """Why a run may not work. `needless`: nothing is wrong, there is just nothing left to do."""

    why: str
    needless: bool = False


@dataclass(frozen=True)
class Prepared:
    """What a child knows before its work begins: the partition that it is about, and how people are told of it."""

    partition_key: str
    title: str
    video_key: str | None = None


@dataclass(frozen=True)
class Dispatch:
    """The sensor that asks Dagster for runs of a kind: its name, how often it looks, and what it says of itself."""

    sensor: str
    interval_s: int
    description: str
    nothing_due: str


class JobKindHandler(Protocol):
    """One kind of job: what it is about, and how it is executed, committed and forgotten.

    `dagster_job` and `description` are how Dagster shows it. `stages`, in order, are also the names of its assets; what
    fails before its run is booked on the first of them.

    `needs_run`: it is executed as a run of Dagster even when no daemon asked for it. `goes_with_file`: its subject is
    a recording, and old jobs are forgotten when the recording is gone.
    """

    kind: str
    dagster_job: str
    description: str
    partitions: str
    stages: tuple[StageName, ...]
    dispatch: Dispatch
    needs_run: bool
    goes_with_file: bool

    def partition_key(self, job: Job, manifest: Manifest) -> str:
        """Found without reading the subject in full: asked for every job that is due."""

    def settings_of(self, job: Job, settings: Settings) -> Settings:
        """What the job is made with. Raises BadSettings for a request that cannot be understood."""

    def config_hash(self, settings: Settings) -> str | None:
        """Identifies the settings that a job is made with; None if that does not matter to anybody."""

    def job_by_hand(self, launch: Launch, settings: Settings, manifest: Manifest) -> Job | Refused:
        """The job of a run that a person or a schedule started, waiting to be claimed, or claimed by that run."""

    def prepare(self, job: Job, settings: Settings, manifest: Manifest, reporter: PipeReporter) -> Prepared:
        """In the child, before its run: look at the subject, and refuse what cannot be done."""

    def execute(self, context: StageContext, job: Job, manifest: Manifest) -> None:
        """In the child, without a run. Only for kinds that need none."""

    def end(self, ended: WorkEnded, job: Job, manifest: Manifest) -> WorkEnded:
        """In the child, after its run: add what the parent cannot know."""

    def is_complete(self, report: ChildReport) -> bool:
        """Whether a child that ended well said everything that a commit needs."""

    def commit(self, report: ChildReport, job: Job, manifest: Manifest) -> bool:
        """Write the success under the job's lease; False when the job was to stop, and is cancelled."""

    def describe_request(self, job: Job) -> Iterator[str]:
        """What a person asked of the job, a line each."""


def is_under_way(job: Job, launch: Launch) -> bool:
    """Whether it is this very run that works on the job, in another process."""
    return job.status is State.RUNNING and job.run_id == launch.run_id


def is_whole(handler: JobKindHandler, launch: Launch) -> bool:
    """All stages of the subject, not some that a person picked."""
    return set(launch.assets) >= set(handler.stages) or (launch.job_name == handler.dagster_job and not launch.assets)

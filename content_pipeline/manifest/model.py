"""The records of the manifest. Immutable: a change is a new record, read back from the database."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from content_pipeline.errors import BadSettings, RetryPolicy, printable
from content_pipeline.job_kinds import PROCESSING
from content_pipeline.manifest.lifecycle import State

LEASE_S = 90.0


@dataclass(frozen=True)
class JobRequest:
    """A request to bring one subject up to date. Enqueueing is idempotent: one job for each kind and subject.

    `requires`: the capability that a worker must have to claim it; None: anybody may.
    """

    subject: str
    library: str
    kind: str = PROCESSING
    video_key: str | None = None
    priority: int = 0
    max_attempts: int = 3
    max_crashes: int = 2
    input_size: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] | None = None
    force_id: str | None = None
    requires: str | None = None

    def __post_init__(self) -> None:
        if self.max_attempts < 1 or self.max_crashes < 1:
            raise BadSettings(f"{printable(self.subject)}: a job needs at least one attempt and one crash")


@dataclass(frozen=True)
class JobTerms:
    """What jobs that are asked for are to be done with, in place of what was asked before.

    Without `options` they follow the settings as they are when they run. With a `force_id` nothing older is reused; it
    is kept until the job succeeds, whatever is asked for after it.
    """

    options: dict[str, Any] | None = None
    force_id: str | None = None
    priority: int = 0
    requires: str | None = None

    def differ_from(self, job: Job | JobSummary) -> bool:
        """Whether a job that waits on other terms would be done otherwise."""
        return self.force_id is not None or (job.options, job.requires) != (self.options, self.requires)


@dataclass(frozen=True)
class ClaimRequest:
    """Which jobs a worker claims: up to `number` of one kind that are due, the highest priority first.

    `config_hash_of` gives the `config_hash` that a job is about to be made with. `ignore_backoff`: a person asked for
    these, and they are not to wait for their retry. `run_id`: the run that is about to work on it, if one is known.
    `requirements`: only jobs that require one of these, None being those that require nothing; by default all.
    """

    worker_id: str
    number: int = 1
    kind: str = PROCESSING
    job_ids: Sequence[str] | None = None
    config_hash_of: Callable[[Job], str | None] | None = None
    ignore_backoff: bool = False
    min_priority: int | None = None
    run_id: str | None = None
    requirements: frozenset[str | None] | None = None


@dataclass(frozen=True)
class JobFailure:
    """How an attempt failed, and in which stage; `cost` is what its stages had cost by then."""

    code: str
    message: str
    policy: RetryPolicy
    stage: str | None = None
    cost: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Lease:
    """A worker's right to a job until it expires. Every write carries it; one that lost it writes nothing."""

    job_id: str
    claim_number: int
    token: str
    worker_id: str


@dataclass(frozen=True)
class Job:
    job_id: str
    kind: str
    library: str
    subject: str
    video_key: str | None
    input_hash_quick: str | None
    input_hash_full: str | None
    input_size: int | None
    config_hash: str | None
    stage_keys: dict[str, str]
    status: State
    priority: int
    claim_count: int
    attempt_count: int
    max_attempts: int
    crash_count: int
    max_crashes: int
    available_at: datetime
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    lease_token: str | None
    worker_id: str | None
    last_heartbeat: datetime | None
    lease_expires_at: datetime | None
    cancel_requested: bool
    run_id: str | None
    progress: dict[str, Any] | None
    error_code: str | None
    last_error: str | None
    output_files: list[str]
    output_hashes: dict[str, str]
    results: dict[str, Any]
    cost: dict[str, Any]
    metadata: dict[str, Any]
    options: dict[str, Any] | None
    force_id: str | None
    requires: str | None

    @property
    def lease(self) -> Lease:
        assert self.lease_token is not None and self.worker_id is not None, "only a running job has a lease"
        return Lease(self.job_id, self.claim_count, self.lease_token, self.worker_id)


class JobSummary(NamedTuple):
    """The part of a job that a plan looks at; a light record, for there may be 100,000."""

    job_id: str
    subject: str
    video_key: str | None
    status: State
    config_hash: str | None
    error_code: str | None
    last_error: str | None
    output_files: list[str]
    stage_keys: dict[str, str]
    results: dict[str, Any]
    options: dict[str, Any] | None = None
    force_id: str | None = None
    requires: str | None = None


@dataclass(frozen=True)
class Transition:
    id: int
    job_id: str
    attempt: int
    from_state: State
    to_state: State
    timestamp: datetime
    worker_id: str | None
    run_id: str | None
    reason: str
    error_snippet: str | None


@dataclass(frozen=True)
class Attempt:
    """One claim and what came of it. `outcome` is None while it runs."""

    job_id: str
    number: int
    worker_id: str
    run_id: str | None
    started_at: datetime
    ended_at: datetime | None
    outcome: str | None
    error_code: str | None
    error: str | None
    cost: dict[str, Any]


@dataclass(frozen=True)
class JobResult:
    """What a success leaves behind. Every output exists, was fsynced and hashed before this is said."""

    video_key: str | None = None
    input_hash_quick: str | None = None
    input_hash_full: str | None = None
    input_size: int | None = None
    config_hash: str | None = None
    stage_keys: dict[str, str] = field(default_factory=dict)
    output_files: list[str] = field(default_factory=list)
    output_hashes: dict[str, str] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    cost: dict[str, Any] = field(default_factory=dict)  # by stage

    @property
    def computed(self) -> list[str]:
        """The stages that were gone through, and not found done."""
        return [stage for stage, spent in self.cost.items() if not spent["reused"]]


@dataclass(frozen=True)
class Renewal:
    """What a heartbeat learnt: leases that are gone, and jobs that a person asked to stop."""

    lost: frozenset[str]
    cancelled: frozenset[str]

"""What each job is made with: its own options, or the settings of whoever works on it."""

from __future__ import annotations

from functools import lru_cache

from content_pipeline.errors import BadSettings
from content_pipeline.execution.job_kinds import handler_of
from content_pipeline.execution.runs import MakeRuns, RunBackend
from content_pipeline.manifest.model import Job
from content_pipeline.settings import Settings

DIFFERENT_AT_ONCE = 8


def settings_of(job: Job | None, settings: Settings) -> Settings:
    """Options that cannot be understood are refused by the child, which has a run to say so in."""
    try:
        return settings if job is None else handler_of(job.kind).settings_of(job, settings)
    except BadSettings:
        return settings


class JobSettings:
    """What Dagster sees is built here once for all children with the same settings, before they are forked."""

    def __init__(self, make_runs: MakeRuns) -> None:
        self._make_runs = make_runs
        self._runs = lru_cache(DIFFERENT_AT_ONCE)(self._prepared)
        self._hash = lru_cache(DIFFERENT_AT_ONCE)(lambda kind, settings: handler_of(kind).config_hash(settings))

    def hash_of(self, job: Job, settings: Settings) -> str | None:
        """Asked inside a claim, so it has to be quick."""
        return self._hash(job.kind, settings_of(job, settings))

    def runs_with(self, settings: Settings) -> RunBackend:
        return self._runs(settings)

    def _prepared(self, settings: Settings) -> RunBackend:
        runs = self._make_runs(settings)
        runs.prepare()
        return runs

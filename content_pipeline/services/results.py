"""What was made so far, as pandas tables: for a notebook, a report, or a question that no command answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from content_pipeline.artifacts import ArtifactStore
from content_pipeline.job_kinds import PROCESSING
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import Settings, load

if TYPE_CHECKING:
    import pandas as pd

JOB_COLUMNS = (
    *("job_id", "kind", "library", "subject", "video_key", "status", "priority"),
    *("attempt_count", "crash_count", "error_code", "last_error"),
    *("created_at", "started_at", "completed_at", "run_id", "input_size"),
)
FACT_COLUMNS = ("events", "highlights", "clips", "montage_s")
TIMES = ("created_at", "started_at", "completed_at")
HIGHLIGHT_COLUMNS = (
    *("job_id", "subject", "video_key", "number", "start_s", "end_s", "duration_s", "score"),
    *("montage", "montage_start_s", "montage_end_s", "recording_s"),
)
COST_COLUMNS = ("job_id", "subject", "stage", "reused", "wall_s", "cpu_s", "peak_bytes", "bytes")


class Results:
    """Reads the manifest and the cache as they are, and changes nothing. Without settings: those of this folder."""

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = load().settings if settings is None else settings
        self._manifest = open_manifest(self._settings, Access.READ)
        self._artifacts = ArtifactStore(self._settings.state_dir.absolute() / "artifacts")

    def jobs(self) -> pd.DataFrame:
        """One row for each job: its state, its attempts, what went wrong, and what came of it."""
        import pandas as pd

        rows = [_job_row(job) for job in self._manifest.jobs.list()]
        table = pd.DataFrame(rows, columns=[*JOB_COLUMNS, *FACT_COLUMNS, "montage"])
        return table.assign(**{name: pd.to_datetime(table[name], utc=True) for name in TIMES})

    def highlights(self) -> pd.DataFrame:
        """One row for each highlight: where it is in the recording and in the montage, and its score."""
        return _table([row for job in self._processed() for row in self._highlight_rows(job)], HIGHLIGHT_COLUMNS)

    def costs(self) -> pd.DataFrame:
        """One row for each stage of each job: time, processor time and memory of its last success."""
        rows = [
            {"job_id": job.job_id, "subject": job.subject, "stage": stage, **cost}
            for job in self._manifest.jobs.list()
            for stage, cost in job.cost.items()
        ]
        return _table(rows, COST_COLUMNS)

    def _processed(self) -> Sequence[Job]:
        return self._manifest.jobs.list(JobFilter(kind=PROCESSING))

    def _highlight_rows(self, job: Job) -> Iterator[dict[str, Any]]:
        """From the artifacts of the last success; a published montage may have been edited since."""
        chosen = self._document(job, "detections", "detections.json").get("highlights", [])
        cuts = self._document(job, "montage", "montage.json").get("cuts", [])
        recording_s = self._document(job, "fingerprint", "media.json").get("duration_s")
        for number, (highlight, cut) in enumerate(zip(chosen, cuts, strict=False), 1):
            yield {
                "job_id": job.job_id,
                "subject": job.subject,
                "video_key": job.video_key,
                "number": number,
                "start_s": highlight["start_s"],
                "end_s": highlight["end_s"],
                "duration_s": highlight["end_s"] - highlight["start_s"],
                "score": highlight["score"],
                "montage": _montage(job),
                "montage_start_s": cut["start_s"],
                "montage_end_s": cut["end_s"],
                "recording_s": recording_s,
            }

    def _document(self, job: Job, stage: str, name: str) -> Mapping[str, Any]:
        """Empty where the stage was not reached, made nothing, or its artifact was deleted."""
        key = job.stage_keys.get(stage)
        artifact = None if key is None else self._artifacts.find(stage, key)
        if artifact is None or not artifact.path(name).exists():
            return {}
        document: Mapping[str, Any] = artifact.read_json(name)
        return document


def _job_row(job: Job) -> dict[str, Any]:
    facts = job.results.get("facts", {})
    own = {name: getattr(job, name) for name in JOB_COLUMNS}
    words = {"kind": str(job.kind), "status": str(job.status)}
    return {**own, **words, **{name: facts.get(name) for name in FACT_COLUMNS}, "montage": _montage(job)}


def _montage(job: Job) -> str | None:
    return next((path for path in job.output_files if path.endswith(".mp4")), None)


def _table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    import pandas as pd

    return pd.DataFrame(rows, columns=list(columns))

"""The names by which jobs of the manifest and runs of Dagster find each other."""

from __future__ import annotations

PROCESS_VIDEO = "process_video"
CALIBRATE_LIBRARY = "calibrate_library"
VIDEO_PARTITIONS = "videos"
LIBRARY_PARTITIONS = "libraries"


def job_tag(job_id: str, attempt: int) -> str:
    """One attempt of a job, as a run that delivers it is tagged."""
    return f"{job_id}:{attempt}"


def parse_job_tag(tag: str) -> tuple[str, int]:
    job_id, _, attempt = tag.partition(":")
    return job_id, int(attempt)

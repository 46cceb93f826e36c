"""The tags of Dagster's runs by which ours are recognized."""

from __future__ import annotations

import re
from collections.abc import Mapping

JOB_TAG = "content-ai/job"  # `job_id:attempt`, on a run that delivers an attempt of a job
OWNER_TAG = "content-ai/owner"  # the process that executes a run by itself, without a launcher
# The launch queue that a run was put into, wherever it is. The prefix hides it in the UI: it tells people nothing.
QUEUE_TAG = ".dagster/content-ai-launch-queue"
PARTITION_TAG = "dagster/partition"
DATA_VERSION_TAG = "dagster/data_version"
PARENT_RUN_TAG = "dagster/parent_run_id"
PRIORITY_TAG = "dagster/priority"
WILL_RETRY_TAG = "dagster/will_retry"  # on a failed run that is followed by another one, later
BACKFILL_TAG = "dagster/backfill"  # the backfill that a run belongs to
BACKFILL_KIND_TAG = "content-ai/backfill"  # on a backfill of ours and its runs: see `backfills.py`
BACKFILL_SINCE_TAG = ".dagster/content-ai-backfill-since"  # the last event before the first of its runs
BACKFILL_ENDED_TAG = ".dagster/content-ai-backfill-ended"  # on a backfill that ended as the manifest says
BACKFILL_SEEN_TAG = "content-ai/cancel-seen"  # on a backfill that a person cancelled: its jobs were cancelled, too

BACKFILL_PRIORITY = -10  # what can wait for the quiet hours
BACKFILL_NOW_PRIORITY = -5  # what a person wants brought up to date now, behind new recordings


def job_tag_of(tags: Mapping[str, str]) -> str | None:
    """The attempt that a run delivers. A run that a person executes again copies the tag, and is one by hand."""
    tag = None if PARENT_RUN_TAG in tags else tags.get(JOB_TAG)
    return tag if tag is not None and re.fullmatch(r"\w+:\d+", tag) else None


def queue_of(tags: Mapping[str, str]) -> str | None:
    """The launch queue that a run was put into; None for one that no launcher of ours has launched."""
    return tags.get(QUEUE_TAG)


def owner_of(tags: Mapping[str, str]) -> str | None:
    """The process that executes a run by itself."""
    return None if PARENT_RUN_TAG in tags else tags.get(OWNER_TAG)

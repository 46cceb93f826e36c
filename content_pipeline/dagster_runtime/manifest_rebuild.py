"""The manifest, rebuilt from Dagster's records: what was done before it was lost is not done again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import dagster as dg

from content_pipeline.dagster_runtime import private_api as internals
from content_pipeline.dagster_runtime import records
from content_pipeline.dagster_runtime.records import Finished, Record
from content_pipeline.execution.names import VIDEO_PARTITIONS
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.restore import RecordedVideo
from content_pipeline.manifest.statements import in_chunks
from content_pipeline.stage import VIDEO_STAGES

REASON = "rebuilt from Dagster's records"
VIDEOS_AT_A_TIME = 500
# Dagster looks up so many named partitions faster than it lists the latest of all.
FEW = 500

Latest = Mapping[str, int]  # video -> number of its latest materialization
Read = TypeVar("Read")


@dataclass(frozen=True)
class Rebuilt:
    """Rows that were added; and videos that the time did not suffice for, or of which Dagster remembers too little."""

    videos: int = 0
    jobs: int = 0
    left: int = 0
    unknown: int = 0


def missing_keys(instance: dg.DagsterInstance, manifest: Manifest) -> list[str]:
    """The videos that Dagster knows and the manifest does not."""
    known = manifest.videos.keys()
    return [key for key in instance.get_dynamic_partitions(VIDEO_PARTITIONS) if key not in known]


def rebuild(instance: dg.DagsterInstance, manifest: Manifest, budget_s: float | None = None) -> Rebuilt:
    """Add what the manifest does not know. What it knows stays as it is, so doing it twice changes nothing.

    A video whose stages were all finished gets its jobs back as succeeded; any other is left to the next plan,
    which finds its artifacts. The budget is looked at after each chunk, so that every call gets on.
    """
    started = time.monotonic()
    latest = _latest(instance, missing_keys(instance, manifest))
    # The newest first: two videos may remember one path, and who was there last is right.
    keys = sorted(latest["fingerprint"], key=lambda key: -latest["fingerprint"][key])
    rebuilt = Rebuilt(left=len(keys))
    for some in in_chunks(keys, VIDEOS_AT_A_TIME):
        if budget_s is not None and rebuilt.left < len(keys) and time.monotonic() - started > budget_s:
            break
        rebuilt = _restore(instance, manifest, some, latest, rebuilt)
    return rebuilt


def forget_videos(instance: dg.DagsterInstance) -> int:
    """Take every video out of Dagster's list, so that no rebuild brings it back. Runs and events stay."""
    return internals.forget_partitions(instance, VIDEO_PARTITIONS)


def _latest(instance: dg.DagsterInstance, keys: Collection[str]) -> dict[str, Latest]:
    """Of each asset, the latest materialization of these videos."""
    wanted = set(keys)
    found: dict[str, Latest] = {name: {} for name in VIDEO_STAGES}
    for name in VIDEO_STAGES if wanted else ():
        numbers = internals.latest_materializations(instance, name, wanted if len(wanted) <= FEW else None)
        found[name] = {key: number for key, number in numbers.items() if key in wanted}
    return found


def _restore(
    instance: dg.DagsterInstance,
    manifest: Manifest,
    keys: Sequence[str],
    latest: Mapping[str, Latest],
    before: Rebuilt,
) -> Rebuilt:
    """Some videos more."""
    whole = [key for key in keys if all(key in latest[name] for name in VIDEO_STAGES)]
    montages: dict[str, Finished] = {}
    for key, record in _records(instance, "montage", whole, latest):
        if (montage := _understood(records.read_montage, record)) is not None:
            montages[key] = montage
    lost: dict[str, list[RecordedVideo]] = {}
    for key, record in _records(instance, "fingerprint", keys, latest):
        lost[key] = _understood(lambda one: records.remembered(one, montages.get(str(one.partition_key))), record) or []
    recipes = {montage.config_hash: montage.recipe for montage in montages.values()}
    added = manifest.restore([file for key in keys for file in lost.get(key, [])], recipes, REASON)
    return Rebuilt(
        videos=before.videos + added.videos,
        jobs=before.jobs + added.jobs,
        left=before.left - len(keys),
        unknown=before.unknown + sum(not lost.get(key) for key in keys),
    )


def _records(
    instance: dg.DagsterInstance, name: str, keys: Sequence[str], latest: Mapping[str, Latest]
) -> Iterator[tuple[str, Record]]:
    if not keys:
        return
    wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey(name), storage_ids=[latest[name][key] for key in keys])
    for record in instance.fetch_materializations(wanted, limit=len(keys)).records:
        yield str(record.partition_key), record


def _understood(read: Callable[[Record], Read], record: Record) -> Read | None:
    """None of a record that was written by hand, or before there was anything for the manifest in it."""
    try:
        return read(record)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return None

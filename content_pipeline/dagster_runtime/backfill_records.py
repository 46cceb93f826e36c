"""Backfills in Dagster's records: added, read and ended, with what Dagster has for them."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime

import dagster as dg

from content_pipeline.dagster_runtime.private_api import (
    AssetBackfillData,
    AssetGraphSubset,
    BulkActionsFilter,
    BulkActionStatus,
    PartitionBackfill,
    TimestampWithTimezone,
)

NO_ASSET = dg.AssetKey("content-ai-keep-open")


def last_event(instance: dg.DagsterInstance) -> int:
    """The number of the latest event on record."""
    found = instance.event_log_storage.get_maximum_record_id()
    return 0 if found is None else found


def add_backfill(
    instance: dg.DagsterInstance,
    backfill_id: str,
    title: str,
    description: str,
    tags: Mapping[str, str],
    assets: Collection[str],
    partitions: dg.DynamicPartitionsDefinition,
    keys: Collection[str],
    after_event: int,
) -> None:
    """A backfill of these partitions, all of whose runs somebody else asks for: Dagster's daemon only counts.

    What its runs materialize after the given event counts for it.
    """
    now_s = time.time()
    targets = _subset(assets, partitions, keys)
    data = AssetBackfillData(
        target_subset=targets,
        requested_runs_for_target_roots=True,
        latest_storage_id=after_event,
        materialized_subset=AssetGraphSubset.create_empty_subset(),
        requested_subset=targets,
        failed_and_downstream_subset=AssetGraphSubset.create_empty_subset(),
        backfill_start_time=TimestampWithTimezone(now_s, "UTC"),
    )
    instance.add_backfill(
        PartitionBackfill(
            backfill_id=backfill_id,
            status=BulkActionStatus.REQUESTED,
            from_failure=False,
            tags=tags,
            backfill_timestamp=now_s,
            asset_selection=[dg.AssetKey(name) for name in assets],
            title=title,
            description=description,
            asset_backfill_data=data,
        )
    )


def _subset(
    assets: Collection[str], partitions: dg.DynamicPartitionsDefinition, keys: Collection[str]
) -> AssetGraphSubset:
    its = partitions.subset_with_partition_keys(list(keys))
    by_asset = {dg.AssetKey(name): its for name in assets} if keys else {}
    return AssetGraphSubset.create_empty_subset()._replace(partitions_subsets_by_asset_key=by_asset)


@dataclass(frozen=True)
class Backfill:
    """A backfill, as far as it concerns us."""

    backfill_id: str
    status: BulkActionStatus
    tags: Mapping[str, str]
    keys: frozenset[str]


def backfills(
    instance: dg.DagsterInstance, tag: str, statuses: Collection[BulkActionStatus], after: datetime
) -> list[Backfill]:
    """Those that carry a tag, in one of these states."""
    wanted = BulkActionsFilter(statuses=list(statuses), created_after=after)
    found = [one for one in instance.get_backfills(filters=wanted) if one.tags and tag in one.tags]
    return [Backfill(one.backfill_id, one.status, dict(one.tags), _keys(one)) for one in found]


def has_backfill(instance: dg.DagsterInstance, backfill_id: str) -> bool:
    return instance.get_backfill(backfill_id) is not None


def _keys(backfill: PartitionBackfill) -> frozenset[str]:
    if backfill.asset_backfill_data is None:
        return frozenset()
    subsets = backfill.asset_backfill_data.target_subset.partitions_subsets_by_asset_key.values()
    return frozenset(key for subset in subsets for key in subset.get_partition_keys())


def end_backfill(
    instance: dg.DagsterInstance,
    backfill_id: str,
    status: BulkActionStatus,
    partitions: dg.DynamicPartitionsDefinition,
    failed: Collection[str],
    description: str | None = None,
) -> None:
    """As it ended: all of its partitions were made but those that failed. What has ended stays as it is."""
    found = instance.get_backfill(backfill_id)
    if found is None or found.status is not BulkActionStatus.REQUESTED or found.asset_backfill_data is None:
        return
    data = found.asset_backfill_data
    assets = [key.to_user_string() for key in data.target_subset.asset_keys]
    lost = _subset(assets, partitions, failed) - data.materialized_subset  # the stages before the one that failed
    data = data._replace(materialized_subset=data.target_subset - lost, failed_and_downstream_subset=lost)
    ended = found._replace(asset_backfill_data=data, status=status, backfill_end_timestamp=time.time())
    instance.update_backfill(ended if description is None else ended._replace(description=description))


def keep_open(instance: dg.DagsterInstance, backfill_id: str) -> None:
    """Keep Dagster's daemon from ending a backfill that has no open run, until its next look.

    It does so when a look finds everything as the look before left it. So something is changed that no page shows: an
    asset that the backfill is not about is noted among those that failed, and each look of the daemon takes it out.
    """
    found = instance.get_backfill(backfill_id)
    if found is None or found.status is not BulkActionStatus.REQUESTED or found.asset_backfill_data is None:
        return
    data = found.asset_backfill_data
    failed = data.failed_and_downstream_subset
    if NO_ASSET not in failed.non_partitioned_asset_keys:
        failed = failed._replace(non_partitioned_asset_keys=failed.non_partitioned_asset_keys | {NO_ASSET})
        instance.update_backfill(found._replace(asset_backfill_data=data._replace(failed_and_downstream_subset=failed)))


def reopen_backfill(instance: dg.DagsterInstance, backfill_id: str) -> None:
    """What Dagster's daemon ended as failed goes on: what it called failed is yet to be done."""
    found = instance.get_backfill(backfill_id)
    if found is None or found.status is not BulkActionStatus.COMPLETED_FAILED or found.asset_backfill_data is None:
        return
    data = found.asset_backfill_data._replace(failed_and_downstream_subset=AssetGraphSubset.create_empty_subset())
    instance.update_backfill(
        found._replace(asset_backfill_data=data, status=BulkActionStatus.REQUESTED, backfill_end_timestamp=None)
    )


def tag_backfill(instance: dg.DagsterInstance, backfill_id: str, tags: Mapping[str, str]) -> None:
    found = instance.get_backfill(backfill_id)
    if found is not None:
        instance.update_backfill(found._replace(tags={**found.tags, **tags}))

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from content_pipeline.dagster_runtime.names import job_tag_of
from content_pipeline.defs.asset_errors import asset_errors
from content_pipeline.defs.assets.common import asset_options, materialized
from content_pipeline.errors import UnknownLibrary
from content_pipeline.execution.calibrating import BeingCalibrated, Calibrated, Calibrator
from content_pipeline.execution.names import parse_job_tag
from content_pipeline.library.keys import library_key
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.open import open_in_a_child
from content_pipeline.settings import Settings
from content_pipeline.stages.calibration_document import TableRow
from content_pipeline.stages.context import StageContext

COLUMNS = {
    "value": "float",
    "clips": "int",
    "seconds": "float",
    "montage_s": "float",
    "per_hour": "float",
    "limited": "int",
    "change": "string",
}


def build(settings: Settings) -> dg.AssetsDefinition:
    # No dependency either way. It reads the curves of whichever videos have some, and detections follow it by their
    # key: one edge over all partitions would call every video of every library stale for the sake of one.
    @dg.asset(**asset_options(settings, "calibration", {"numpy"}))
    def calibration(
        context: dg.AssetExecutionContext, stage_context: dg.ResourceParam[StageContext]
    ) -> dg.MaterializeResult:
        """The threshold that reaches the target of a library, and what each other value would pick.

        The target is in the settings: the length of a montage (`calibration.montage_s`), or how many moments an hour
        are found (`calibration.per_hour`). The value applies to the videos of the library at once; the next
        backfill or `content-ai process` uses it. Without a target only the table is made. Reads cached curves only:
        nothing is decoded or rendered.
        """
        with asset_errors("calibration", context) as meter:
            done = _calibrate(context, stage_context)
            metadata = _metadata(done)
        return materialized(context, done.result, metadata, meter)

    return calibration


def _calibrate(context: dg.AssetExecutionContext, stage_context: StageContext) -> Calibrated:
    """The job that this run delivers, or the one of the library that a person or the schedule asks for."""
    settings, cores, progress = stage_context.settings, stage_context.cores, stage_context.progress
    manifest = open_in_a_child(settings)
    calibrator = Calibrator(settings, manifest, cores, progress, stop_for_good=True)
    tag = job_tag_of(context.run.tags)
    if tag is None:
        return calibrator.calibrate(_library(manifest, context.partition_key), "a run was started")
    done = calibrator.take(parse_job_tag(tag)[0])
    if done is None:
        raise BeingCalibrated(f"the job of this run is being worked on, or done: {context.partition_key}")
    return done


def _library(manifest: Manifest, key: str) -> Path:
    library = next((root for root in manifest.libraries.roots() if library_key(root) == key), None)
    if library is None:
        raise UnknownLibrary(f"no library is known by the key {key}")
    return library


def _metadata(done: Calibrated) -> dict[str, Any]:
    facts, found = done.result.artifact.facts, done.document
    shown: dict[str, Any] = {
        "library": dg.MetadataValue.path(found.library),
        "videos": facts["videos"],
        "without_curves": facts["without_curves"],
        "hours": round(found.hours, 3),
        "setting": found.setting,
        "now": found.now.value,
        "target": "none" if found.target is None else f"{found.target.kind} {found.target.amount:g}",
        "applied": f"no: {done.told}" if done.applied is None else "yes",
        "remarks": "; ".join(found.remarks) if found.remarks else "none",
        "values": _table(found.table),
    }
    return shown if done.applied is None else {**shown, "value": done.applied.value}


def _table(rows: Sequence[TableRow]) -> dg.TableMetadataValue:
    shown = [{**row.model_dump(), "change": f"+{row.came} / -{row.went}"} for row in rows]
    return dg.MetadataValue.table(
        [dg.TableRecord({name: row[name] for name in COLUMNS}) for row in shown],
        schema=dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in COLUMNS.items()]),
    )

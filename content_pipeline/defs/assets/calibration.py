from collections.abc import Sequence
from typing import Any

import dagster as dg

from content_pipeline.defs.asset_errors import asset_errors
from content_pipeline.defs.assets.common import asset_options, materialized
from content_pipeline.execution.job_kinds.calibration import Calibrated, calibrate, library_with_key
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
        are found (`calibration.per_hour`). The value applies to the library's videos when the run has ended; the next
        backfill or `content-ai process` uses it. Without a target only the table is made. Reads cached curves only:
        nothing is decoded or rendered.
        """
        with asset_errors("calibration", context) as meter:
            manifest = open_in_a_child(stage_context.settings)
            library = library_with_key(context.partition_key, manifest)
            done = calibrate(stage_context, library, manifest)
            metadata = _metadata(done)
        return materialized(context, done.result, metadata, meter)

    return calibration


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
        "applied": f"no: {done.why_not}" if done.applied is None else "yes",
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

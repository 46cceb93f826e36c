"""What the assets of all stages share: their options, and how a result is recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from content_pipeline.defs.asset_config import config_of
from content_pipeline.defs.asset_errors import op_retry_policy
from content_pipeline.defs.partitions import LIBRARIES, VIDEOS
from content_pipeline.errors import printable
from content_pipeline.execution.run_context import current_run
from content_pipeline.failpoints import failpoint
from content_pipeline.settings import Settings
from content_pipeline.stage import StageName, spec_of
from content_pipeline.stages.context import StageResult, code_version
from content_pipeline.stages.cost import Meter

# Of everything that encodes. Its limit is the default of dagster.yaml, until one is set for the pool in the UI.
RENDER_POOL = "render"
# Roughly what a stage takes of the machine, to filter by in the catalog.
_COST: dict[StageName, str] = {
    "fingerprint": "reads-all",
    "energy": "decodes-all",
    "detections": "cheap",
    "montage": "encodes",
    "calibration": "cheap",
    "best_of": "encodes",
}
_PARTITIONS = {"video": VIDEOS, "library": LIBRARIES}


def asset_options(settings: Settings, stage: StageName, kinds: set[str], pool: str | None = None) -> dict[str, Any]:
    subject = spec_of(stage).subject
    return {
        "name": stage,
        "deps": spec_of(stage).depends_on,
        "partitions_def": _PARTITIONS[subject],
        "code_version": code_version(settings, stage),
        "group_name": subject,
        "owners": ["team:content"],
        "kinds": kinds,
        "tags": {"subject": subject, "cost": _COST[stage]},
        "output_required": True,
        "pool": pool,
        "config_schema": config_of(stage).to_config_schema(),
        "retry_policy": op_retry_policy(settings),
    }


def materialized(
    context: dg.AssetExecutionContext,
    result: StageResult,
    metadata: Mapping[str, Any],
    meter: Meter,
    checks: tuple[dg.AssetCheckResult, ...] = (),
    config_hash: str | None = None,
    recovery: Mapping[str, Any] | None = None,
) -> dg.MaterializeResult:
    """`metadata`, in the order in which people see it; what it cost follows, and what only a rebuild reads is last."""
    failpoint(f"{result.stage}_left")
    cost = meter.spent()
    current_run().reporter.finished(result, cost, config_hash)
    # Given with the result, Dagster would keep it twice: with the step's output, and with the materialization.
    context.add_asset_metadata(
        {
            **metadata,
            "reused": result.reused,
            "seconds": cost["wall_s"],
            "cpu_s": cost["cpu_s"],
            **({} if recovery is None else recovery),
        },
    )
    return dg.MaterializeResult(data_version=dg.DataVersion(result.key), check_results=checks)


def tally(name: str, counts: Mapping[str, int]) -> dict[str, str]:
    """How many of each, in words, the most first; nothing where there are none."""
    shown = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return {name: ", ".join(f"{number} {what.replace('_', ' ')}" for what, number in shown)} if counts else {}


def listed(name: str, sentences: Sequence[str]) -> dict[str, str]:
    """Remarks in one entry; nothing where there are none."""
    return {name: " ".join(printable(one) for one in sentences)} if sentences else {}


def picture(name: str, path: Path, alt: str) -> dict[str, dg.MetadataValue]:
    """A picture so small that Dagster can keep it with every run, and where the whole one is."""
    import base64

    from content_pipeline.media.preview.thumbnail import thumbnail

    small = base64.b64encode(thumbnail(path.read_bytes())).decode()
    return {
        name: dg.MetadataValue.md(f"![{alt}](data:image/webp;base64,{small})"),
        f"{name}_file": dg.MetadataValue.path(printable(path)),
    }

"""The report of a library: what is out of date in it, why, since when, and what it would cost."""

import base64
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from content_pipeline.defs.asset_errors import failure_of
from content_pipeline.defs.partitions import LIBRARIES
from content_pipeline.errors import PipelineError, counted, printable
from content_pipeline.execution.job_kinds.calibration import library_with_key
from content_pipeline.execution.run_context import current_run
from content_pipeline.library.keys import canonical_path, library_key
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.open import open_in_a_child
from content_pipeline.services.library_report import LibraryReport, make_report
from content_pipeline.services.report_file import report_path, stale_since, write_report
from content_pipeline.settings import Settings
from content_pipeline.system.hashing import digest_of

if TYPE_CHECKING:
    import pandas as pd

LIBRARY_REPORT = "library_report"
NOTHING_IS_STALE = "nothing_is_stale"
# Dagster keeps the table with every report; the CSV file holds all rows.
MOST_ROWS = 50
MOST_CAUSES = 10
UNKNOWN = "unknown"  # a cost, while too little was done here to tell
COLUMNS = {
    "path": "string",
    "standing": "string",
    "why": "string",
    "stale_since": "string",
    "in_sync_at": "string",
    "expected_cpu": "string",
    "size_mb": "float",
}
# It is made every hour while the daemon runs: one that is older says nothing of today.
FRESH = dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=26), warn_window=timedelta(hours=3))


def build_library_report(settings: Settings) -> dg.AssetsDefinition:
    # No dependency: it reads the manifest and the folder. An edge over all partitions of `montage` would make Dagster
    # compare every video whenever somebody opens its page.
    @dg.asset(
        name=LIBRARY_REPORT,
        partitions_def=LIBRARIES,
        group_name="library",
        owners=["team:content"],
        kinds={"pandas"},
        tags={"subject": "library", "cost": "cheap"},
        code_version="1",
        freshness_policy=FRESH,
        check_specs=[_check_spec()],
    )
    def library_report(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        """Which videos of a library are out of date: why, since when, and what bringing them up to date would cost.

        Compares file names and times with the manifest, and reads no recording. `stale_since` is the best that is
        known: when a plan marked the video, when its file was changed, or else the first report that saw it.
        `in_sync_at` is its last success. Costs are what the latest videos cost here, by stage and size. The CSV file
        holds every row, the table below the first of them. To do what is stale, launch the job `backfill_stale`.
        """
        try:
            report = _made(settings, context.partition_key)
            path = report_path(settings, context.partition_key)
            write_report(report, path)
        except PipelineError as error:
            raise failure_of(error) from error
        context.add_asset_metadata(_metadata(report, path))
        return dg.MaterializeResult(data_version=dg.DataVersion(_version(report)), check_results=[_check(report)])

    return library_report


def _made(settings: Settings, key: str) -> LibraryReport:
    manifest = open_in_a_child(settings)
    current_run().reporter.alive()
    seen_before = stale_since(report_path(settings, key))
    return make_report(settings, _library(settings, key, manifest), manifest, seen_before, datetime.now(UTC))


def _library(settings: Settings, key: str, manifest: Manifest) -> Path:
    """A watched folder has a report even before its first recording; any other is known by its jobs."""
    watched = (canonical_path(folder) for folder in settings.library.folders)
    found = next((root for root in watched if library_key(root) == key), None)
    return library_with_key(key, manifest) if found is None else found


def _version(report: LibraryReport) -> str:
    """The same for as long as nothing changes, whenever it was made."""
    return digest_of([[video.path, str(video.standing), video.why] for video in report.reported])


def _metadata(report: LibraryReport, path: Path) -> dict[str, Any]:
    causes = report.causes()
    counts = {name: number for name, number in report.counts().items() if number or name == "stale"}
    return {
        "plot": _plot(causes, report),
        **counts,
        "up_to_date": report.up_to_date,
        "videos": report.videos,
        **(_cost(causes) if report.stale else {}),
        **({"gone": report.gone} if report.gone else {}),
        **({"offline": report.offline} if report.offline else {}),
        **({"videos_not_up_to_date": _table(report)} if report.reported else {}),
        "csv": dg.MetadataValue.path(printable(path)),
        "library": dg.MetadataValue.path(printable(report.library)),
    }


def _cost(causes: "pd.DataFrame") -> dict[str, Any]:
    known = {f"stale_{name}": causes[name].sum(min_count=1) for name in ("cpu_s", "wall_s")}
    costs = {name: round(float(total), 1) for name, total in known.items() if total == total}
    return {**(costs if costs else {"stale_cost": UNKNOWN}), "stale_bytes": int(causes["bytes"].sum())}


def _plot(causes: "pd.DataFrame", report: LibraryReport) -> dg.MetadataValue:
    from content_pipeline.media.preview.bars import Bar, draw_bars

    bars = [
        Bar(printable(row.cause), row.videos, f"{counted(row.videos, 'video')}, {_seconds(row.cpu_s)} of CPU")
        for row in causes.itertuples()
    ]
    title = f"{len(report.stale)} of {counted(report.videos, 'video')} out of date, by cause"
    png = base64.b64encode(draw_bars(title, bars)).decode()
    return dg.MetadataValue.md(f"![videos out of date, by cause](data:image/png;base64,{png})")


def _table(report: LibraryReport) -> dg.TableMetadataValue:
    table = report.table().head(MOST_ROWS)
    records = [
        dg.TableRecord(
            {
                "path": printable(row.path),
                "standing": str(row.standing),
                "why": printable(row.why),
                "stale_since": _shown(row.stale_since),
                "in_sync_at": _shown(row.in_sync_at),
                "expected_cpu": _seconds(row.expected_cpu_s),
                "size_mb": round(row.size_bytes / 1e6, 2),
            }
        )
        for row in table.itertuples()
    ]
    columns = [dg.TableColumn(name, kind) for name, kind in COLUMNS.items()]
    return dg.MetadataValue.table(records, schema=dg.TableSchema(columns=columns))


def _seconds(seconds: float) -> str:
    if seconds != seconds:
        return UNKNOWN
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


def _shown(at: Any) -> str:
    return "" if at != at or at is None else f"{at:%Y-%m-%d %H:%M} UTC"


def _check_spec() -> dg.AssetCheckSpec:
    with warnings.catch_warnings():
        # Partitioned checks are marked as a preview in dagster 1.13; drop this once they are not.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(
            NOTHING_IS_STALE,
            asset=LIBRARY_REPORT,
            description="No video is out of date after a change of settings, code, its file or its outputs.",
            partitions_def=LIBRARIES,
        )


def _check(report: LibraryReport) -> dg.AssetCheckResult:
    causes = [f"{counted(row.videos, 'video')}: {printable(row.cause)}" for row in report.causes().itertuples()]
    return dg.AssetCheckResult(
        check_name=NOTHING_IS_STALE,
        passed=not report.stale,
        severity=dg.AssetCheckSeverity.WARN,
        metadata={"stale": len(report.stale), **({"causes": "; ".join(causes[:MOST_CAUSES])} if causes else {})},
        description=None if not report.stale else f"{counted(len(report.stale), 'video')} out of date",
    )

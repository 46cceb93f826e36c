"""`content-ai plan`: what would run and why, how long it would take, and whether there is room."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from content_pipeline.cli.options import process_options, settings_options
from content_pipeline.cli.printing import counted, lasting, print_document, print_note, print_result

if TYPE_CHECKING:
    from content_pipeline.cli.process import Request
    from content_pipeline.library.plan import LibraryPlan, PlannedVideo
    from content_pipeline.library.scan import Scan

MOST_ROWS = 50


@click.command()
@process_options
@settings_options
def plan(**given: Any) -> int:
    """Show what `process` with the same options would do, and why. Reads no recording and changes nothing."""
    from content_pipeline.cli.process import Request

    return show_plan(Request.of(given))


def show_plan(request: Request) -> int:
    from content_pipeline.cli.live import LiveProgress
    from content_pipeline.cli.main import EXIT_USAGE
    from content_pipeline.cli.process import find_recordings, print_passed_over
    from content_pipeline.manifest.database import Access
    from content_pipeline.services.processing import Batch
    from content_pipeline.services.queueing import lost_manifest

    if (lost := lost_manifest(request.settings)) is not None:
        print_note(lost)
    found = find_recordings(request, Access.READ)
    if found is None:
        return EXIT_USAGE
    print_passed_over(found, request.settings)
    batch = Batch(request.settings, LiveProgress(found, quiet=True), request.force, Access.READ)
    planned = batch.plan(found, request.limit)
    document = describe(planned, found, request, batch.recent_costs())
    print_document(document) if request.as_json else _print(planned, document["totals"])
    return 0


def describe(planned: LibraryPlan, found: Scan, request: Request, costs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    from content_pipeline.library.plan import expected_seconds
    from content_pipeline.library.space import free_bytes, needed_bytes

    expected = expected_seconds(planned.videos, costs)
    sizes = [video.found.signature.size_bytes for video in planned.to_run]
    known_s = [seconds for seconds in expected.values() if seconds is not None]
    return {
        "videos": [_row(video, expected.get(video.found.path)) for video in planned.videos],
        "renamed": [{"from": one.before, "to": str(one.found.path)} for one in planned.renamed],
        "gone": list(planned.gone),
        "offline": list(planned.offline),
        "passed_over": {**found.passed_over, **found.other_endings},
        "changed_outputs": [str(path) for path in found.changed_outputs],
        "totals": {
            "videos": len(planned.videos),
            "to_run": len(planned.to_run),
            "left_out": planned.left_out,
            "up_to_date": sum(video.action == "keep" for video in planned.videos),
            "expected_s": round(sum(known_s), 1) if known_s else None,
            # Worked on one after the other, with what each leaves behind being small: the largest decides.
            "bytes_needed": max((needed_bytes(size, request.settings) for size in sizes), default=0),
            "bytes_free": free_bytes(request.settings.state_dir.absolute()),
        },
    }


def _row(video: PlannedVideo, expected_s: float | None) -> dict[str, Any]:
    return {
        "path": str(video.found.path),
        "key": None if video.job is None else video.job.video_key,
        "status": "pending" if video.will_run else str(video.job.status) if video.job is not None else "new",
        "action": str(video.action),
        "stages": dict(video.reasons),
        "why": video.why,
        "expected_s": None if expected_s is None else round(expected_s, 1),
        "note": video.note,
    }


def _print(planned: LibraryPlan, totals: dict[str, Any]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from content_pipeline.errors import printable

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("video", "action", "why"):
        table.add_column(title, overflow="fold")
    shown = [video for video in planned.videos if video.action != "keep"]
    for video in shown[:MOST_ROWS]:
        table.add_row(Text(printable(video.found.path.name)), Text(str(video.action)), Text(video.why))
    if shown:
        print_result(table)
    if len(shown) > MOST_ROWS:
        print_result(f"… and {len(shown) - MOST_ROWS} more; --json lists all.")
    if planned.left_out:
        print_result(f"{counted(planned.left_out, 'more video')} to do beyond the limit.")
    if planned.renamed:
        print_result(f"Renamed or moved: {counted(len(planned.renamed), 'recording')}; the results move along.")
    if planned.offline:
        print_result(
            f"Offline: {counted(len(planned.offline), 'recording')}; is a disk not mounted? Nothing is forgotten."
        )
    time_needed = "unknown yet" if totals["expected_s"] is None else f"about {lasting(totals['expected_s'])}"
    print_result(
        f"{counted(totals['videos'], 'video')}: {totals['to_run']} to run, {totals['up_to_date']} up to date; "
        f"time {time_needed}; {totals['bytes_needed'] / 1e9:.2f} GB needed, {totals['bytes_free'] / 1e9:.2f} GB free."
    )

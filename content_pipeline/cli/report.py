"""What was done, reused, failed and why: the end of `process` and `queue process`, and their exit codes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from content_pipeline.cli.live import details
from content_pipeline.cli.main import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_SOME_FAILED
from content_pipeline.cli.printing import counted, print_document, print_error, print_note, print_result
from content_pipeline.errors import hint_for, printable
from content_pipeline.services.pauses import describe_scope
from content_pipeline.services.processing_document import (
    NOT_DONE,
    STATUSES,
    ProcessingDocument,
    ProcessingTotals,
    VideoOutcome,
)

MOST_ROWS = 50
STYLES = {"succeeded": "green", "failed": "red", "cancelled": "yellow", "superseded": "yellow", "pending": "dim"}


def print_processing(document: ProcessingDocument, as_json: bool, only_enqueued: bool = False) -> int:
    """What became of everything; returns the exit code."""
    if as_json:
        print_document(document)
    else:
        _print_report(document, only_enqueued)
        if document.left_out:
            print_note(f"{counted(document.left_out, 'more recording')} to do: the next call goes on.")
    for pause in document.paused:
        what = describe_scope(pause.scope)
        print_error(f"{what} is paused ({pause.error_code}): {pause.error}", hint_for(pause.error_code))
    if document.interrupted:
        print_note("Interrupted. Nothing is lost: the same command continues where it stopped.")
        return EXIT_INTERRUPTED
    if document.paused:
        return EXIT_FAILURE
    not_done = ("failed",) if only_enqueued else NOT_DONE
    return EXIT_SOME_FAILED if any(document.totals.of(status) for status in not_done) else 0


def _print_report(document: ProcessingDocument, only_enqueued: bool) -> None:
    videos = document.videos
    if not videos:
        return
    folders = sorted({Path(video.outputs[0]).parent for video in videos if video.outputs})
    _print_table(videos, folders)
    for video in videos:
        for note in video.notes:
            print_result(f"  {note}")
    print_result(_totals(document.totals, only_enqueued))
    for code, hint in sorted({(video.error_code, video.hint) for video in videos if video.error_code is not None}):
        print_result(f"  {code}: {hint}")
    for folder in folders:
        print_result(f"Montages: {printable(folder)}")
    if not only_enqueued:
        print_result("Runs, plots and checks: run `content-ai dev` and open http://127.0.0.1:3000")


def _print_table(videos: Sequence[VideoOutcome], folders: Sequence[Path]) -> None:
    """Also where output is piped: the lines that told of each video before went to stderr."""
    print_result(_table(sorted(videos, key=_interest)[:MOST_ROWS], folders))
    if len(videos) > MOST_ROWS:
        print_result(f"… and {len(videos) - MOST_ROWS} more; --json lists all.")


def _interest(video: VideoOutcome) -> int:
    """Failures first, then what was done, then what was there already."""
    return 0 if video.status != "succeeded" else 1 if "computed" in video.stages.values() else 2


def _table(videos: Sequence[VideoOutcome], folders: Sequence[Path]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("video", "status", "result", "montage"):
        table.add_column(title, overflow="fold")
    for video in videos:
        table.add_row(
            Text(printable(Path(video.path).name)),
            Text(video.status, STYLES.get(video.status, "")),
            _result(video),
            Text(_montage(video, folders)),
        )
    return table


def _result(video: VideoOutcome) -> Text:
    """What came of it, and below, why it was to be done."""
    lines = [part for part in ((details(video), ""), (video.why, "dim")) if part[0]]
    return Text("\n").join(Text(text, style) for text, style in lines)


def _montage(video: VideoOutcome, folders: Sequence[Path]) -> str:
    """Which file it is, with its folder if there are several; and with which equal recording it is shared."""
    if video.montage is None:
        return ""
    path = Path(video.montage)
    name = printable(path.name if [path.parent] == folders else path)
    return name if video.copy_of is None else f"{name} (shared with {printable(video.copy_of)}: the same recording)"


def _totals(totals: ProcessingTotals, only_enqueued: bool) -> str:
    videos = counted(totals.videos, "video")
    if only_enqueued:
        return f"{videos}; nothing was processed: run `content-ai queue process`."
    without = f" ({totals.no_highlights} without highlights)" if totals.no_highlights else ""
    parts = [f"{totals.succeeded} succeeded{without}"]
    parts += [f"{totals.of(name)} {name}" for name in STATUSES[1:] if totals.of(name)]
    work = f"{counted(totals.stages_computed, 'stage')} computed, {totals.stages_reused} reused"
    return f"{videos}: {', '.join(parts)}; {work}; {totals.seconds:.1f} s."

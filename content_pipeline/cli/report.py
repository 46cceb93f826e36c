"""The closing table: what was done, reused, failed and why."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from content_pipeline.cli.live import details
from content_pipeline.cli.printing import counted, print_result
from content_pipeline.cli.process import STATUSES
from content_pipeline.errors import printable
from content_pipeline.execution.outcome import Outcome

MOST_ROWS = 50
STYLES = {"succeeded": "green", "failed": "red", "cancelled": "yellow", "superseded": "yellow", "pending": "dim"}


def print_report(outcomes: Sequence[Outcome], totals: dict[str, Any], only_listed: bool) -> None:
    if not outcomes:
        return
    by_interest = sorted(outcomes, key=_interest)
    folders = sorted({Path(outcome.outputs[0]).parent for outcome in outcomes if outcome.outputs})
    print_result(_table(by_interest[:MOST_ROWS], folders))
    if len(outcomes) > MOST_ROWS:
        print_result(f"… and {len(outcomes) - MOST_ROWS} more; --json lists all.")
    for outcome in outcomes:
        for note in outcome.notes:
            print_result(f"  {note}")
    print_result(_totals(totals, only_listed))
    for code, hint in sorted({(o.error_code, o.hint) for o in outcomes if o.error_code is not None}):
        print_result(f"  {code}: {hint}")
    for folder in folders:
        print_result(f"Montages: {printable(folder)}")
    if not only_listed:
        print_result("Runs, plots and checks: run `content-ai dev` and open http://127.0.0.1:3000")


def _interest(outcome: Outcome) -> int:
    """Failures first, then what was done, then what was there already."""
    return 0 if outcome.status != "succeeded" else 1 if "computed" in outcome.stages.values() else 2


def _table(outcomes: Sequence[Outcome], folders: Sequence[Path]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for title in ("video", "status", "result", "montage"):
        table.add_column(title, overflow="fold")
    for outcome in outcomes:
        table.add_row(
            Text(printable(outcome.path.name)),
            Text(outcome.status, STYLES.get(outcome.status, "")),
            _result(outcome),
            Text(_montage(outcome, folders)),
        )
    return table


def _result(outcome: Outcome) -> Text:
    """What came of it, and below, why it was to be done."""
    lines = [part for part in ((details(outcome), ""), (outcome.why, "dim")) if part[0]]
    return Text("\n").join(Text(text, style) for text, style in lines)


def _montage(outcome: Outcome, folders: Sequence[Path]) -> str:
    """Which file it is, with its folder if there are several; and of which recording, if that has copies."""
    if outcome.montage is None:
        return ""
    path = Path(outcome.montage)
    name = printable(path.name if [path.parent] == folders else path)
    return name if outcome.copy_of is None else f"{name} (a copy of {printable(outcome.copy_of)})"


def _totals(totals: dict[str, Any], only_listed: bool) -> str:
    if only_listed:
        return f"{counted(totals['videos'], 'video')}; nothing was processed."
    without = f" ({totals['no_highlights']} without highlights)" if totals["no_highlights"] else ""
    parts = [f"{totals['succeeded']} succeeded{without}"]
    parts += [f"{totals[name]} {name}" for name in STATUSES[1:] if totals.get(name)]
    work = f"{counted(totals['stages_computed'], 'stage')} computed, {totals['stages_reused']} reused"
    videos = counted(totals["videos"], "video")
    return f"{videos}: {', '.join(parts)}; {work}; {totals['seconds']:.1f} s."

"""Progress while videos are processed: bars on a terminal, a line per video elsewhere."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from content_pipeline.cli.printing import print_note, stderr
from content_pipeline.errors import printable
from content_pipeline.launcher.outcome import Outcome
from content_pipeline.library.scan import Scan

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# How much of a video's time each stage takes, roughly; only the bar's smoothness hangs on it.
STAGE_SHARE = {"fingerprint": (0.0, 0.05), "energy": (0.05, 0.6), "detections": (0.65, 0.05), "montage": (0.7, 0.3)}


class LiveProgress:
    """The ETA counts bytes, so that one long recording weighs what it costs."""

    def __init__(self, found: Scan, quiet: bool) -> None:
        self._quiet = quiet
        self._sizes = {one.path: one.signature.size_bytes for one in found.recordings}
        self._count = len(found.recordings) + len(found.refused)
        self._ended: set[Path] = set()
        self._bars: Progress | None = None
        self._overall: TaskID | None = None
        self._tasks: dict[Path, TaskID] = {}
        self._done: dict[Path, float] = {}

    def __enter__(self) -> LiveProgress:
        if not self._quiet and stderr().is_terminal and self._count:
            self._bars = _bars()
            self._bars.start()
            self._overall = self._bars.add_task(
                f"{self._count} videos", total=max(1, sum(self._sizes.values())), stage=""
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def started(self, outcome: Outcome) -> None:
        if self._bars is not None:
            self._tasks[outcome.path] = self._bars.add_task(_short(outcome.path), total=1.0, stage="")

    def progressed(self, outcome: Outcome, stage: str, fraction: float) -> None:
        before, share = STAGE_SHARE.get(stage, (0.0, 1.0))
        self._advance(outcome.path, before + share * fraction, stage)

    def ended(self, outcome: Outcome) -> None:
        self._ended.add(outcome.path)
        self._advance(outcome.path, 1.0, "")
        if self._bars is not None and outcome.path in self._tasks:
            self._bars.remove_task(self._tasks.pop(outcome.path))
        if not self._quiet:
            total = max(self._count, len(self._ended))
            self._say(f"[{len(self._ended)}/{total}] {_short(outcome.path)}: {describe(outcome)}")

    def _advance(self, path: Path, fraction: float, stage: str) -> None:
        self._done[path] = max(fraction, self._done.get(path, 0.0))
        if self._bars is None or self._overall is None:
            return
        if path in self._tasks:
            self._bars.update(self._tasks[path], completed=self._done[path], stage=stage)
        self._bars.update(
            self._overall, completed=sum(self._sizes.get(done, 0) * part for done, part in self._done.items())
        )
        self._bars.refresh()

    def _say(self, line: str) -> None:
        if self._bars is not None:
            self._bars.console.print(line, markup=False)
        else:
            print_note(line)


def describe(outcome: Outcome) -> str:
    """One line on what became of a video."""
    if outcome.status == "failed":
        return f"failed ({outcome.error_code}): {outcome.error}"
    if outcome.status != "succeeded":
        why = outcome.note if outcome.error is None else f"{outcome.error} {outcome.note}".strip()
        return f"{outcome.status}: {why}" if why else outcome.status
    computed = [stage for stage, how in outcome.stages.items() if how == "computed"]
    work = f"computed {', '.join(computed)}" if computed else "everything reused"
    if outcome.no_highlights:
        return f"no highlights ({work}, {outcome.seconds:.1f} s)"
    clips, montage_s = outcome.facts.get("clips"), outcome.facts.get("montage_s") or 0.0
    return f"{clips} clips, {montage_s:.1f} s ({work}, {outcome.seconds:.1f} s)"


def _short(path: Path) -> str:
    return printable(path.name)


def _bars() -> Progress:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=30),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[stage]}", markup=False),
        console=stderr(),
        transient=True,
        auto_refresh=False,  # a thread of its own could hold a lock at the moment a child is forked
    )

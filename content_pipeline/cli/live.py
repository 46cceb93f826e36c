"""Progress while videos are processed: bars on a terminal; elsewhere a line per video, and one now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from content_pipeline.cli.found import print_calibration, print_found
from content_pipeline.cli.printing import counted, print_error, print_note, shortened, stderr
from content_pipeline.errors import hint_for, printable
from content_pipeline.execution.outcome import Outcome
from content_pipeline.services.processing_document import CalibrationOutcome, VideoOutcome
from content_pipeline.services.recordings import FoundRecordings
from content_pipeline.stage import share_of_time

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

LINE_EVERY_S = 15.0
MOST_WHY = 40  # characters beside a bar; the line at the end says all
NOT_ENDED = ("pending", "dirty")


class LiveProgress:
    """The ETA counts bytes, so that one long recording weighs what it costs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._count = 0
        self._weights: Mapping[Path, int] = {}
        self._ended: set[Path] = set()
        self._bars: Progress | None = None
        self._overall: TaskID | None = None
        self._tasks: dict[Path, TaskID] = {}
        self._done: dict[Path, float] = {}
        self._last_line_s = clock()

    def __enter__(self) -> LiveProgress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def rebuilt(self, message: str) -> None:
        print_note(message)

    def found(self, found: FoundRecordings) -> None:
        print_found(found)
        print_calibration(found)

    def calibrated(self, outcome: CalibrationOutcome) -> None:
        library = printable(outcome.library)
        if outcome.error is None:
            print_note(f"{library} is calibrated: {outcome.result}.")
        else:
            print_error(f"calibration of {library}: {outcome.error}", hint_for(outcome.error_code))

    def expect(self, number: int, sizes: Mapping[Path, int] | None = None) -> None:
        """So many videos will end; `sizes` in bytes of those that are worked on, or None when all count alike."""
        self._count = number
        self._weights = {} if sizes is None else sizes
        if stderr().is_terminal and number:
            total = number if sizes is None else max(1, sum(sizes.values()))
            self._bars = _bars()
            self._bars.start()
            self._overall = self._bars.add_task(counted(number, "video"), total=total, stage="")

    def started(self, outcome: Outcome) -> None:
        if self._bars is not None:
            self._tasks[outcome.path] = self._bars.add_task(
                _short(outcome.path), total=1.0, stage=shortened(outcome.why, MOST_WHY)
            )

    def progressed(self, outcome: Outcome, stage: str, fraction: float) -> None:
        before, share = share_of_time(stage)
        self._advance(outcome.path, before + share * fraction, stage)
        if self._bars is None and self._clock() - self._last_line_s >= LINE_EVERY_S:
            done = f"{len(self._ended)} of {counted(self._total, 'video')} done"
            self._say(f"{_short(outcome.path)}: {stage} {fraction:.0%}; {done}")

    def ended(self, outcome: Outcome) -> None:
        if outcome.status not in NOT_ENDED:
            self._ended.add(outcome.path)
            self._advance(outcome.path, 1.0, "")
        if self._bars is not None and outcome.path in self._tasks:
            self._bars.remove_task(self._tasks.pop(outcome.path))
        number = f"[{len(self._ended)}/{self._total}] " if outcome.path in self._ended else ""
        why = f" [{outcome.why}]" if outcome.why else ""
        self._say(f"{number}{_short(outcome.path)}: {describe(VideoOutcome.of(outcome))}{why}")

    @property
    def _total(self) -> int:
        return max(self._count, len(self._ended))  # others may enqueue meanwhile

    def _advance(self, path: Path, fraction: float, stage: str) -> None:
        self._done[path] = max(fraction, self._done.get(path, 0.0))
        if self._bars is None or self._overall is None:
            return
        if path in self._tasks:
            self._bars.update(self._tasks[path], completed=self._done[path], stage=stage)
        unknown = 0 if self._weights else 1
        self._bars.update(
            self._overall, completed=sum(self._weights.get(done, unknown) * part for done, part in self._done.items())
        )
        self._bars.refresh()

    def _say(self, line: str) -> None:
        self._last_line_s = self._clock()
        if self._bars is not None:
            self._bars.console.print(line, markup=False)
        else:
            print_note(line)


def describe(video: VideoOutcome) -> str:
    """One line on what became of a video."""
    if video.status == "succeeded":
        return _result(video)
    code = f" ({video.error_code})" if video.status == "failed" and video.error_code is not None else ""
    return f"{video.status}{code}: {_why(video)}" if _why(video) else f"{video.status}{code}"


def details(video: VideoOutcome) -> str:
    """What became of a video, without its status."""
    if video.status == "succeeded":
        return _result(video)
    code = f"{video.error_code}: " if video.status == "failed" and video.error_code is not None else ""
    return f"{code}{_why(video)}"


def _why(video: VideoOutcome) -> str:
    # Messages name their video; in a row of that video once is enough.
    error = "" if video.error is None else video.error.removeprefix(printable(video.path)).lstrip(": ")
    return "; ".join(part for part in (error, video.note) if part)


def _result(video: VideoOutcome) -> str:
    without = {"montage"} if video.no_highlights else set()  # it was looked into, and there is none
    computed = [stage for stage, how in video.stages.items() if how == "computed" and stage not in without]
    nothing = "reused, put in place again" if video.written else "everything reused"
    work = f"computed {', '.join(computed)}" if computed else nothing
    spent = f"({work}, {video.seconds:.1f} s)"
    track = audio_track(video.audio_track, video.audio_tracks)
    clips = 0 if video.clips is None else video.clips
    montage_s = 0.0 if video.montage_s is None else video.montage_s
    made = "no highlights" if video.no_highlights else f"{counted(clips, 'clip')}, {montage_s:.1f} s"
    return f"{', '.join(part for part in (made, track) if part)} {spent}"


def audio_track(track: int | None, tracks: int | None) -> str:
    """Which audio track was listened to, where there was a choice; with the setting that chooses another."""
    if track is None or tracks is None or tracks < 2:
        return ""
    return f"audio track {track + 1} of {tracks} (energy.track={track})"


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

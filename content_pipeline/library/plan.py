"""What would be done, and why: the manifest compared with the folder, without reading any recording."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

from content_pipeline.errors import BadSettings, MissingFile
from content_pipeline.library.presence import is_offline, is_there
from content_pipeline.library.recipe import FOLLOWS, Recipe, changes
from content_pipeline.library.scan import Found, Scan
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import JobSummary
from content_pipeline.media.source import Signature
from content_pipeline.settings.job_options import JobOptions
from content_pipeline.stage import VIDEO_STAGES

NEW = "new"
INPUT_CHANGED = "input changed"
TIMES_CHANGED = "file times changed"
BACK = "the file is there again"
NOT_AGAIN = "not tried again, as nothing changed (`content-ai queue retry` does)"
# Among a job's results: its outputs are files of their own. They were hard links into the cache once.
OWN_COPIES = "own_copies"
FORCED = "forced"
WAITING = (State.PENDING, State.DIRTY, State.RUNNING)


class Action(StrEnum):
    CREATE = "create"  # a new video: enqueue it
    REDO = "redo"  # succeeded once, but no longer holds
    RETRY = "retry"  # failed, and what it failed on has changed
    WAIT = "wait"  # already queued or running
    KEEP = "keep"  # up to date
    LEAVE = "leave"  # failed, cancelled or discarded: a person's turn


_PREFIX = {Action.REDO: "dirty: ", Action.RETRY: "failed before; "}


class PlannedVideo(NamedTuple):
    """`reasons` maps each stage that would run to why."""

    found: Found
    action: Action
    reasons: Mapping[str, str]
    job: JobSummary | None = None
    note: str = ""

    @property
    def will_run(self) -> bool:
        return self.action in (Action.CREATE, Action.REDO, Action.RETRY, Action.WAIT)

    @property
    def why(self) -> str:
        """Why it runs, or does not, in one line: what changed, without what only follows from that."""
        if self.note and self.job is not None:
            code = "" if self.job.error_code is None else f" ({self.job.error_code})"
            return f"{self.job.status}{code}, {self.note}"
        causes = dict.fromkeys(why for why in self.reasons.values() if not why.startswith(FOLLOWS))
        return f"{_PREFIX.get(self.action, '')}{'; '.join(causes)}" if causes else ""


@dataclass(frozen=True)
class Renamed:
    """The same file under another name: its job moves with it."""

    before: str
    found: Found


@dataclass(frozen=True)
class Wanted:
    """What results should be made with, and where they should be.

    `options`: a command's, which its jobs keep; None when they follow the settings.
    """

    recipe: Recipe
    output_dir: str
    options: JobOptions | None = None
    force: bool = False


@dataclass(frozen=True)
class LibraryPlan:
    root: Path
    videos: tuple[PlannedVideo, ...]
    renamed: tuple[Renamed, ...]
    gone: tuple[str, ...]
    offline: tuple[str, ...] = ()  # not found either, but what held them seems not to be mounted
    left_out: int = 0  # videos that need work too, beyond a limit

    def limited(self, most: int | None) -> LibraryPlan:
        """Only the first so many of those that need work."""
        if most is None:
            return self
        chosen = self.to_run[:most]
        kept = {video.found.path for video in chosen}
        videos = tuple(video for video in self.videos if not video.will_run or video.found.path in kept)
        return replace(self, videos=videos, left_out=len(self.to_run) - len(chosen))

    @property
    def to_run(self) -> tuple[PlannedVideo, ...]:
        return tuple(video for video in self.videos if video.will_run)


@dataclass(frozen=True)
class Known:
    """What the manifest knows of a library, by path: signatures of files, and jobs.

    `recipes` holds those that were ever used, by their digest; `calibrated` what videos that follow a
    calibration should be made with, by video key.
    """

    signatures: Mapping[str, str]
    jobs: Mapping[str, JobSummary]
    recipes: Mapping[str, Recipe] = field(default_factory=dict)
    calibrated: Mapping[str, Recipe] = field(default_factory=dict)


def plan(scan: Scan, known: Known, wanted: Wanted) -> LibraryPlan:
    """Pure but for `stat` on outputs. Linear in the number of videos."""
    renamed = _renamed(scan.recordings, known)
    moved = {one.found.path: one.before for one in renamed}
    videos = []
    for found in scan.recordings:
        before = moved.get(found.path) if moved else None
        path = str(found.path) if before is None else before
        input_changed = None if before is not None else _input_change(known.signatures.get(path), found.signature)
        videos.append(_plan_video(found, known.jobs.get(path), input_changed, known, wanted))
    missing = _missing(scan.recordings, known, set(moved.values()))
    offline = {path for path in missing if is_offline(Path(path), known.signatures[path])}
    gone = tuple(path for path in missing if path not in offline)
    return LibraryPlan(scan.root, tuple(videos), tuple(renamed), gone, tuple(sorted(offline)))


def _input_change(known: str | None, found: Signature) -> str | None:
    """What `stat` says otherwise of a file than before, if anything; only reading tells whether its bytes changed."""
    if found.matches(known):
        return None
    same_sizes = f"{found.device}:{found.inode}:{found.size_bytes}:", f"-:-:{found.size_bytes}:"
    return TIMES_CHANGED if known is not None and known.startswith(same_sizes) else INPUT_CHANGED


def _missing(recordings: Iterable[Found], known: Known, moved: set[str]) -> list[str]:
    """Known files that are neither found nor moved; those outside this scan are still there."""
    unseen = known.signatures.keys() - {str(found.path) for found in recordings} - moved
    return sorted(path for path in unseen if not is_there(Path(path)))


def _renamed(recordings: Iterable[Found], known: Known) -> list[Renamed]:
    """A new path with the device, inode, size and time of a path that is gone is that file, moved.

    Of shared storage neither device nor inode is known: a file that moved there is known by what it holds, once read.
    """
    unknown = [found for found in recordings if str(found.path) not in known.signatures]
    if not unknown:
        return []
    present = {str(found.path) for found in recordings}
    missing = {_body(signature): path for path, signature in known.signatures.items() if path not in present}
    pairs = ((missing.get(_body(str(found.signature))), found) for found in unknown)
    return [Renamed(before, found) for before, found in pairs if before is not None and not is_there(Path(before))]


def _body(signature: str) -> str:
    """A signature without its last part: renaming changes the ctime and nothing else."""
    return signature.rpartition(":")[0]


def _plan_video(
    found: Found, job: JobSummary | None, input_changed: str | None, known: Known, wanted: Wanted
) -> PlannedVideo:
    if job is None:
        return PlannedVideo(found, Action.CREATE, dict.fromkeys(VIDEO_STAGES, NEW))
    if job.status in WAITING:
        return PlannedVideo(found, Action.WAIT, dict.fromkeys(VIDEO_STAGES, _why_waiting(job, wanted)), job)
    if job.status in (State.CANCELLED, State.DISCARDED):
        return PlannedVideo(found, Action.LEAVE, {}, job, f"`content-ai queue resume {job.job_id}` brings it back")
    reasons = _reasons(job, input_changed, known, wanted)
    if not reasons:
        action = Action.KEEP if job.status is State.SUCCEEDED else Action.LEAVE
        note = "" if job.status is State.SUCCEEDED else NOT_AGAIN
        return PlannedVideo(found, action, {}, job, note)
    return PlannedVideo(found, Action.REDO if job.status is State.SUCCEEDED else Action.RETRY, reasons, job)


def _reasons(job: JobSummary, input_changed: str | None, known: Known, wanted: Wanted) -> dict[str, str]:
    if wanted.force:
        return dict.fromkeys(VIDEO_STAGES, FORCED)
    if input_changed is not None:
        return dict.fromkeys(VIDEO_STAGES, input_changed)
    if job.status is State.FAILED and job.error_code == MissingFile.code:
        return dict.fromkeys(VIDEO_STAGES, BACK)
    recipe = wanted.recipe if job.video_key is None else known.calibrated.get(job.video_key, wanted.recipe)
    reasons: dict[str, str] = {}
    if job.config_hash != recipe.config_hash and not _failed_before_it_mattered(job, wanted):
        before = known.recipes.get(job.config_hash) if job.config_hash is not None else None
        reasons = changes(before, recipe)
    elif job.status is State.FAILED and (allowed := _changed_settings(job, wanted)):
        return dict.fromkeys(VIDEO_STAGES, ", ".join(allowed))
    if job.status is State.SUCCEEDED and (broken := _broken_output(job, wanted.output_dir)) is not None:
        own = reasons.get("montage", FOLLOWS)
        reasons["montage"] = broken if own.startswith(FOLLOWS) else f"{own}, {broken}"
    return reasons


def _why_waiting(job: JobSummary, wanted: Wanted) -> str:
    """Asked for again on other terms, a job that waits is done on those; one that runs, afterwards."""
    if wanted.force:
        return FORCED
    state = "is running" if job.status is State.RUNNING else "was waiting"
    waits = f"already {job.status}" if job.force_id is None else f"{state}, with --force"
    changed = _changed_options(job, wanted)
    if not changed:
        return waits
    return f"{waits}; {'afterwards' if job.status is State.RUNNING else 'now'} with {', '.join(changed)}"


def _changed_options(job: JobSummary, wanted: Wanted) -> list[str]:
    """What a command asks of a job otherwise than it was asked before."""
    if wanted.options is None or job.options == wanted.options.as_json():
        return []
    before = _options_of(job)
    if before is None:
        return ["the settings and the output folder of this command"]
    return wanted.options.changes_from(before)


def _changed_settings(job: JobSummary, wanted: Wanted) -> list[str]:
    """What a failed job may now do that it might not: limits are in no recipe, for they change no result."""
    before = _options_of(job)
    if wanted.options is None or before is None:
        return []
    return replace(wanted.options, output_dir=before.output_dir).changes_from(before)


def _options_of(job: JobSummary) -> JobOptions | None:
    """None of a job that has none, or some that nobody understands any more."""
    try:
        return None if job.options is None else JobOptions.from_json(job.options)
    except BadSettings:
        return None


def _failed_before_it_mattered(job: JobSummary, wanted: Wanted) -> bool:
    """A calibration decides what is chosen, not whether a file can be read: for it alone nothing is tried again."""
    return job.status is State.FAILED and job.config_hash == wanted.recipe.config_hash


def _broken_output(job: JobSummary, output_dir: str) -> str | None:
    """The first output that is not as it was left, or not where it is wanted, by `stat` alone."""
    for path, (size_bytes, mtime_ns) in job.results.get("output_stats", {}).items():
        if not path.startswith(f"{output_dir}/") and not _is_in(path, output_dir):
            return f"output folder {Path(path).parent} -> {output_dir}"
        try:
            status = Path(path).stat()
        except OSError:
            return f"output missing: {path}"
        if (status.st_size, status.st_mtime_ns) != (size_bytes, mtime_ns):
            return f"output changed: {path}"
        if status.st_nlink > 1 and not job.results.get(OWN_COPIES):
            return f"output shares its bytes with the cache: {path}"
    return None


def _is_in(path: str, folder: str) -> bool:
    """Whether a path leads there by another name of the folder."""
    return os.path.realpath(Path(path).parent) == os.path.realpath(folder)


class ExpectedCost(NamedTuple):
    """Of one video, as far as it is known: time on a clock, and processor time."""

    wall_s: float
    cpu_s: float


def expected_seconds(videos: Sequence[PlannedVideo], costs: Iterable[Mapping[str, Any]]) -> dict[Path, float | None]:
    """From what earlier videos cost on this machine, per byte and stage; None where nothing is known yet."""
    return {path: None if cost is None else cost.wall_s for path, cost in expected_costs(videos, costs).items()}


def expected_costs(
    videos: Sequence[PlannedVideo], costs: Iterable[Mapping[str, Any]]
) -> dict[Path, ExpectedCost | None]:
    """The same, with processor time."""
    rates = _rates(costs)
    return {video.found.path: _expected(video, rates) if rates else None for video in videos if video.will_run}


def _expected(video: PlannedVideo, rates: Mapping[str, ExpectedCost]) -> ExpectedCost:
    size_bytes = video.found.signature.size_bytes
    known = [rates[stage] for stage in video.reasons if stage in rates]
    return ExpectedCost(sum(one.wall_s for one in known) * size_bytes, sum(one.cpu_s for one in known) * size_bytes)


def _rates(costs: Iterable[Mapping[str, Any]]) -> dict[str, ExpectedCost]:
    """What a byte of a recording costs in each stage that was computed."""
    spent: dict[str, ExpectedCost] = {}
    sizes: dict[str, float] = {}
    for cost in costs:
        for stage, one in cost.items():
            if not one.get("reused") and one.get("bytes"):
                before = spent.get(stage, ExpectedCost(0.0, 0.0))
                spent[stage] = ExpectedCost(before.wall_s + one["wall_s"], before.cpu_s + one.get("cpu_s", 0.0))
                sizes[stage] = sizes.get(stage, 0.0) + one["bytes"]
    return {stage: ExpectedCost(one.wall_s / sizes[stage], one.cpu_s / sizes[stage]) for stage, one in spent.items()}

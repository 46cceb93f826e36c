"""`content-ai process`: a folder of recordings in, montages out."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from content_pipeline.cli.main import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_SOME_FAILED, EXIT_USAGE
from content_pipeline.cli.options import process_options, resolve, settings_options
from content_pipeline.cli.printing import counted, print_document, print_error, print_note
from content_pipeline.errors import EnvironmentalError, LibraryOffline, MissingFile, hint_for, printable
from content_pipeline.library.keys import canonical_path
from content_pipeline.library.scan import Scan, scan
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services.pauses import describe_scope
from content_pipeline.services.planning import output_ownership
from content_pipeline.settings import Settings

STATUSES = (
    *("succeeded", "failed", "superseded", "cancelled", "discarded", "pending", "dirty", "running", "unsettled"),
    *("lost", "removed"),
)
NOT_DONE = ("failed", "superseded", "pending", "dirty", "running", "lost", "removed")

if TYPE_CHECKING:
    from dagster import Definitions

    from content_pipeline.execution.outcome import Outcome
    from content_pipeline.services.processing import Batch


@click.command()
@process_options
@click.option("--dry-run", is_flag=True, help="Only show what would be done and why, like `content-ai plan`.")
@settings_options
def process(dry_run: bool, **given: Any) -> int:
    """Turn recordings into highlight montages. What is up to date is reused."""
    request = Request.of(given)
    if dry_run:
        from content_pipeline.cli.plan import show_plan

        return show_plan(request)
    return carry_out(request)


@dataclass(frozen=True)
class Request:
    target: Path
    settings: Settings
    force: bool = False
    no_process: bool = False
    limit: int | None = None
    as_json: bool = False

    @classmethod
    def of(cls, given: dict[str, Any]) -> Request:
        """From what `process_options` and `settings_options` gave."""
        settings = resolve(given["config_file"], given["state_dir"], given["assignments"], _as_settings(given)).settings
        names = ("force", "no_process", "limit", "as_json")
        return cls(Path(given["target"]), settings, **{name: given[name] for name in names})


def carry_out(request: Request) -> int:
    """Scan, process, tell; returns the exit code."""
    _recover(request)
    found = find_recordings(request)
    if found is None:
        return EXIT_USAGE
    announce(found, request.settings)
    return finish(request, found, *run_batch(found, request))


def _recover(request: Request) -> None:
    """Before the scan, which knows by the manifest what is a recording and what we made of one."""
    from content_pipeline.dagster_runtime.manifest_recovery import describe_rebuilt, recover

    settings = request.settings
    try:
        manifest = open_manifest(settings)
        rebuilt = recover(settings, manifest)
    except EnvironmentalError:
        return  # tried again, and told of, when the batch begins
    if rebuilt is not None:
        where = printable(settings.state_dir.absolute())
        print_note(
            f"The database {manifest.name} is new or empty, but {where} was used before: {describe_rebuilt(rebuilt)}"
        )


def finish(request: Request, found: Scan, batch: Batch, interrupted: bool, seconds: float) -> int:
    """Tell what became of everything; returns the exit code."""
    document = summarize(batch.outcomes, found, seconds)
    paused = [(one.scope, one.error_code, one.message) for one in batch.paused()]
    document["left_out"] = batch.left_out
    document["paused"] = [{"scope": scope, "error_code": code, "error": message} for scope, code, message in paused]
    if request.as_json:
        print_document(document)
    else:
        from content_pipeline.cli.report import print_report

        print_report(batch.outcomes, document["totals"], request.no_process)
        if batch.left_out:
            print_note(f"{counted(batch.left_out, 'more recording')} to do: the next call goes on.")
    for scope, code, message in paused:
        print_error(f"{describe_scope(scope)} is paused ({code}): {message}", hint_for(code))
    if interrupted:
        print_note("Interrupted. Nothing is lost: the same command continues where it stopped.")
        return EXIT_INTERRUPTED
    if paused:
        return EXIT_FAILURE
    not_done = ("failed",) if request.no_process else NOT_DONE
    return EXIT_SOME_FAILED if any(document["totals"][status] for status in not_done) else 0


def find_recordings(request: Request, access: Access = Access.MAKE) -> Scan | None:
    """The recordings; None when the place does not exist and never did."""
    try:
        found = scan(request.target, request.settings.library, output_ownership(request.settings, access))
    except MissingFile as error:
        manifest = open_manifest(request.settings, Access.READ)
        known = manifest.videos.signatures_under(canonical_path(request.target))
        if known:
            videos = counted(len(known), "video")
            raise LibraryOffline(f"{error}, but the manifest knows {videos} there: is it mounted?") from error
        print_error(str(error))
        return None
    return found


def _as_settings(flags: dict[str, Any]) -> dict[str, Any]:
    return {
        "output_dir": flags["output_dir"],
        "db": flags["db"],
        "workers": flags["workers"],
        "library.recursive": flags["recursive"],
        "library.extensions": flags["ext"],
        "detection.rms_threshold": flags["rms_threshold"],
        "output.max_duration_s": flags["max_duration"],
        "output.max_segments": flags["max_segments"],
        "output.order": flags["order"],
    }


def announce(found: Scan, settings: Settings) -> None:
    """Before the work: what was found and what was passed over."""
    print_passed_over(found, settings)
    try:
        applied = open_manifest(settings).calibrations.of_library(found.root)
    except EnvironmentalError:
        return  # told of when the batch begins
    if applied is not None and applied.counts_for(settings):
        undo = f"`content-ai tune -i {shlex.quote(printable(found.root))} --reset` undoes it"
        print_note(f"Calibrated: {applied.name} {applied.value:g} for this library; {undo}.")


def print_passed_over(found: Scan, settings: Settings) -> None:
    """What was not taken for a recording, and why."""
    wanted = settings.library.extensions
    if not found.recordings and not found.refused:
        print_note(f"No recordings ({', '.join(wanted)}) in {printable(found.root)}.")
    if likely := found.likely_recordings:
        more = ",".join([*wanted, *(ending[1:] for ending in likely)])
        print_note(f"Passed over by ending: {_endings(likely)}. To take them too: --ext {more}")
    elif not found.recordings and found.other_endings:
        print_note(f"Passed over by ending: {_endings(found.other_endings)}.")
    for path in found.changed_outputs:
        print_note(
            f"Passed over: {printable(path)}: a montage was published under this name, and the file was changed since. "
            f"If it is a recording: content-ai process -i {shlex.quote(printable(path))}"
        )
    for kind, count in sorted(found.passed_over.items()):
        print_note(f"Passed over: {counted(count, kind)} with a recording's ending.")


def _endings(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{printable(ending) or 'without ending'} {count}" for ending, count in sorted(counts.items()))


def run_batch(
    found: Scan, request: Request, queued: bool = False, max_jobs: int | None = None
) -> tuple[Batch, bool, float]:
    """The work itself, on what was found or on what is queued; what was done before an interruption is kept."""
    from content_pipeline.cli.live import LiveProgress
    from content_pipeline.services.processing import Batch

    settings, started, interrupted = request.settings, time.monotonic(), False
    # Asked to stop, as by Ctrl-C; SIGINT too, which a shell's background commands are started without.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    with LiveProgress(found, quiet=False) as watcher:
        batch = Batch(settings, watcher, request.force)
        try:
            jobs = None if queued else batch.enqueue(found, request.limit)
            if not request.no_process:
                batch.work(_definitions, jobs, max_jobs)
        except KeyboardInterrupt:
            interrupted = True
            batch.interrupted()
        except EnvironmentalError as error:
            batch.stopped_by(error)
    return batch, interrupted, time.monotonic() - started


def _definitions(settings: Settings) -> Definitions:
    from content_pipeline.definitions import build_definitions

    return build_definitions(settings)


def summarize(outcomes: Sequence[Outcome], found: Scan, seconds: float) -> dict[str, Any]:
    """The document that `--json` prints."""
    counted = [outcome.status for outcome in outcomes]
    stages = [how for outcome in outcomes for how in outcome.stages.values()]
    passed_over = {**found.passed_over, **found.other_endings}
    return {
        "videos": [
            {
                "path": str(outcome.path),
                "key": outcome.key,
                "status": outcome.status,
                "error_code": outcome.error_code,
                "error": outcome.error,
                "stages": outcome.stages,
                "montage": outcome.montage,
                "copy_of": None if outcome.copy_of is None else str(outcome.copy_of),
                "reasons": dict(outcome.reasons),
                "why": outcome.why,
                "outputs": list(outcome.outputs),
                "written": list(outcome.written),
                "note": outcome.note,
                "notes": list(outcome.notes),
                "seconds": outcome.seconds,
                "highlights": outcome.facts.get("highlights"),
                "montage_s": outcome.facts.get("montage_s"),
                "audio_track": outcome.facts.get("track"),
                "audio_tracks": outcome.facts.get("tracks"),
            }
            for outcome in outcomes
        ],
        "passed_over": passed_over,
        "changed_outputs": [str(path) for path in found.changed_outputs],
        "totals": {
            "videos": len(outcomes),
            **{status: counted.count(status) for status in STATUSES},
            "no_highlights": sum(outcome.no_highlights for outcome in outcomes),
            "stages_computed": stages.count("computed"),
            "stages_reused": stages.count("reused"),
            "passed_over": sum(passed_over.values()),
            "seconds": round(seconds, 3),
        },
    }

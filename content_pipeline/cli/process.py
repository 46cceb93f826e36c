"""`content-ai process`: a folder of recordings in, montages out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from content_pipeline.cli.main import EXIT_INTERRUPTED, EXIT_SOME_FAILED, EXIT_USAGE
from content_pipeline.cli.options import resolve, settings_options
from content_pipeline.cli.printing import print_document, print_error, print_note
from content_pipeline.errors import MissingFile, printable
from content_pipeline.library.scan import Scan, scan
from content_pipeline.settings import Settings

if TYPE_CHECKING:
    from content_pipeline.launcher.batch import Outcome


@click.command()
@click.option("-i", "--input", "target", required=True, type=click.Path(), help="A recording, or a folder of them.")
@click.option("-o", "--output", "output_dir", type=click.Path(file_okay=False), help="Where montages go [output].")
@click.option("--db", help="The manifest database, a path or a URL [queue.db in the state folder].")
@click.option("-w", "--workers", type=int, help="Videos processed at once [one per core].")
@click.option("-f", "--force", is_flag=True, help="Do everything again, whatever exists.")
@click.option("--resume", is_flag=True, help="Go on where the last call stopped; it does so anyway.")
@click.option("--no-process", is_flag=True, help="Register the recordings, process nothing.")
@click.option("-r", "--recursive", is_flag=True, default=None, help="Look into sub-folders too.")
@click.option("--ext", help="Comma-separated file endings [mp4,mov,mkv,avi].")
@click.option("--limit", type=click.IntRange(min=1), help="At most this many recordings.")
@click.option("--rms-threshold", type=float, help="Level an event must pass [0.10].")
@click.option("--max-duration", type=float, help="Longest montage in seconds [90].")
@click.option("--max-segments", type=int, help="Most clips in a montage [12].")
@click.option("--order", help="chronological, score or hybrid [chronological].")
@click.option("--dry-run", is_flag=True, help="Say which recordings would be processed, and stop.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document at the end.")
@settings_options
def process(
    target: str,
    force: bool,
    no_process: bool,
    limit: int | None,
    dry_run: bool,
    as_json: bool,
    config_file: str | None,
    state_dir: str | None,
    assignments: tuple[str, ...],
    **flags: Any,
) -> int:
    """Turn recordings into highlight montages. What is up to date is reused."""
    settings = resolve(config_file, state_dir, assignments, _as_settings(flags)).settings
    return carry_out(Request(Path(target), settings, force, no_process, limit, dry_run, as_json))


@dataclass(frozen=True)
class Request:
    target: Path
    settings: Settings
    force: bool = False
    no_process: bool = False
    limit: int | None = None
    dry_run: bool = False
    as_json: bool = False


def carry_out(request: Request) -> int:
    """Scan, process, tell; returns the exit code."""
    try:
        found = scan(request.target, request.settings.library)
    except MissingFile as error:
        print_error(str(error))
        return EXIT_USAGE
    if request.limit is not None:
        found = replace(found, recordings=found.recordings[: request.limit])
    if not request.as_json:
        _announce(found, request.settings)
    started = time.monotonic()
    outcomes, interrupted = _work(found, request)
    document = summarize(outcomes, found, time.monotonic() - started)
    if request.as_json:
        print_document(document)
    else:
        from content_pipeline.cli.report import print_report

        print_report(outcomes, document["totals"], request.settings, request.dry_run or request.no_process)
    if interrupted:
        return EXIT_INTERRUPTED
    return EXIT_SOME_FAILED if document["totals"]["failed"] else 0


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


def _announce(found: Scan, settings: Settings) -> None:
    if not found.recordings and not found.refused:
        print_note(f"No recordings ({', '.join(settings.library.extensions)}) in {printable(found.root)}.")
    for kind, count in sorted(found.passed_over.items()):
        print_note(f"Passed over: {count} {kind}{'s' if count > 1 else ''} with a recording's ending.")


def _work(found: Scan, request: Request) -> tuple[Sequence[Outcome], bool]:
    """The work itself; what was done before an interruption is kept and told."""
    from content_pipeline.cli.live import LiveProgress
    from content_pipeline.definitions import build_definitions
    from content_pipeline.defs.jobs import PROCESS_VIDEO
    from content_pipeline.launcher.batch import Batch, Outcome

    if request.dry_run:
        return [Outcome(path) for path in found.recordings], False
    with LiveProgress(found, quiet=request.as_json) as watcher:
        batch = Batch(
            request.settings,
            lambda listener: build_definitions(request.settings, listener, request.force).resolve_job_def(
                PROCESS_VIDEO
            ),
            watcher,
        )
        try:
            batch.register(found) if request.no_process else batch.process(found)
        except KeyboardInterrupt:
            return batch.outcomes, True
    return batch.outcomes, False


def summarize(outcomes: Sequence[Outcome], found: Scan, seconds: float) -> dict[str, Any]:
    """The document that `--json` prints."""
    counted = [outcome.status for outcome in outcomes]
    stages = [how for outcome in outcomes for how in outcome.stages.values()]
    return {
        "videos": [
            {
                "path": str(outcome.path),
                "key": outcome.key,
                "status": outcome.status,
                "error_code": outcome.error_code,
                "error": outcome.error,
                "stages": outcome.stages,
                "outputs": list(outcome.outputs),
                "seconds": outcome.seconds,
                "highlights": outcome.facts.get("highlights"),
                "montage_s": outcome.facts.get("montage_s"),
                "audio_track": outcome.facts.get("track"),
            }
            for outcome in outcomes
        ],
        "totals": {
            "videos": len(outcomes),
            **{status: counted.count(status) for status in ("succeeded", "failed", "cancelled", "pending")},
            "no_highlights": sum(outcome.no_highlights for outcome in outcomes),
            "stages_computed": stages.count("computed"),
            "stages_reused": stages.count("reused"),
            "passed_over": sum(found.passed_over.values()),
            "seconds": round(seconds, 3),
        },
    }

"""`queue retry`, `cancel`, `discard` and `resume`."""

from __future__ import annotations

from typing import Any

import click

from content_pipeline.cli.printing import print_document, print_result
from content_pipeline.cli.queue.options import manifest_of, queue_options, which_of, which_options


@click.command()
@which_options
@queue_options
def retry(**given: Any) -> int:
    """Give failed jobs another chance: all, by id, by error code, or by age."""
    as_json = given.pop("as_json")
    manifest = manifest_of(given)
    number = manifest.retry(which_of(manifest, given))
    return _tell(
        as_json, {"retried": number}, f"{number} jobs will be tried again; `content-ai queue process` does it."
    )


@click.command()
@click.option("--all", "everything", is_flag=True, help="All jobs that wait or run.")
@which_options
@queue_options
def cancel(everything: bool, **given: Any) -> int:
    """Cancel waiting jobs; ask running ones to stop."""
    as_json = given.pop("as_json")
    manifest = manifest_of(given)
    which = which_of(manifest, given)
    _need_a_choice(everything, which)
    waiting, running = manifest.cancel(which)
    text = f"{waiting} jobs cancelled, {running} running ones asked to stop."
    return _tell(as_json, {"cancelled": waiting, "stopping": running}, text)


@click.command()
@click.option("--all", "everything", is_flag=True, help="All jobs that wait or failed.")
@which_options
@queue_options
def discard(everything: bool, **given: Any) -> int:
    """Give up on jobs; a retry passes them over."""
    as_json = given.pop("as_json")
    manifest = manifest_of(given)
    which = which_of(manifest, given)
    _need_a_choice(everything, which)
    number = manifest.discard(which)
    return _tell(as_json, {"discarded": number}, f"{number} jobs discarded.")


@click.command()
@which_options
@queue_options
def resume(**given: Any) -> int:
    """Bring cancelled and discarded jobs back, and end every pause."""
    as_json = given.pop("as_json")
    manifest = manifest_of(given)
    number = manifest.resume(which_of(manifest, given))
    paused = manifest.close_breakers()
    return _tell(as_json, {"resumed": number, "pauses_ended": paused}, f"{number} jobs resumed, {paused} pauses ended.")


def _need_a_choice(everything: bool, which: Any) -> None:
    if not everything and not which.conditions():
        raise click.UsageError("say which jobs: their ids, --error-code, --since, --library, or --all")


def _tell(as_json: bool, document: dict[str, int], text: str) -> int:
    print_document(document) if as_json else print_result(text)
    return 0

"""What a Python program calls in place of a command; the command line's `process` does the same for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from content_pipeline.execution.outcome import Outcome
from content_pipeline.library.scan import scan
from content_pipeline.services.planning import output_ownership
from content_pipeline.services.processing import Batch
from content_pipeline.settings import Settings, load

if TYPE_CHECKING:
    from dagster import Definitions


class Silent:
    """Watches the work and says nothing."""

    def expect(self, number: int, sizes: Mapping[Path, int] | None = None) -> None: ...

    def started(self, outcome: Outcome) -> None: ...

    def progressed(self, outcome: Outcome, stage: str, fraction: float) -> None: ...

    def ended(self, outcome: Outcome) -> None: ...


def process_folder(
    folder: Path | str, settings: Settings | None = None, force: bool = False, limit: int | None = None
) -> Sequence[Outcome]:
    """Bring a folder of recordings, or one recording, up to date; returns what became of each.

    Only what is new or changed is done, with `force` everything; with `limit` at most so many that need work. A video
    that fails has an outcome with its error; raised is only what stops all of them. Stopped at any moment, the same
    call continues where it was.
    """
    settings = load().settings if settings is None else settings
    found = scan(Path(folder), settings.library, output_ownership(settings))
    batch = Batch(settings, Silent(), force)
    batch.work(_definitions, batch.enqueue(found, limit))
    return batch.outcomes


def _definitions(settings: Settings) -> Definitions:
    from content_pipeline.definitions import build_definitions

    return build_definitions(settings)

"""What was found in a folder, and what was passed over, before the work begins."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from content_pipeline.cli.printing import counted, print_note
from content_pipeline.errors import printable
from content_pipeline.services.recordings import FoundRecordings


def print_found(found: FoundRecordings) -> None:
    """What was not taken for a recording, and why."""
    if not found.recordings and not found.refused:
        print_note(f"No recordings ({', '.join(found.extensions)}) in {printable(found.root)}.")
    if found.unsearched_folders:
        folders = counted(found.unsearched_folders, "sub-folder")
        were = "was" if found.unsearched_folders == 1 else "were"
        print_note(f"{folders} with recordings {were} not searched: use --recursive")
    if likely := found.likely_recordings:
        more = ",".join([*found.extensions, *(ending[1:] for ending in likely)])
        print_note(f"Passed over by ending: {_endings(likely)}. To take them too: --ext {more}")
    elif not found.recordings and found.other_endings:
        print_note(f"Passed over by ending: {_endings(found.other_endings)}.")
    for path in map(printable, found.changed_outputs):
        print_note(
            f"Passed over: {path}: a montage was published under this name, and the file was changed since. "
            f"If it is a recording: content-ai process -i {shlex.quote(path)}"
        )
    for kind, count in sorted(found.passed_over.items()):
        print_note(f"Passed over: {counted(count, kind)} with a recording's ending.")


def print_calibration(found: FoundRecordings) -> None:
    """Which threshold this library uses in place of the settings, and how to undo it."""
    if found.calibration is not None:
        undo = f"`content-ai tune -i {shlex.quote(printable(found.root))} --reset` undoes it"
        value = f"{found.calibration.setting} {found.calibration.value:g}"
        print_note(f"Calibrated: {value} for this library; {undo}.")


def _endings(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{printable(ending) or 'without ending'} {count}" for ending, count in sorted(counts.items()))

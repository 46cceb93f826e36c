"""Is there room? Asked before work starts, so that a full disk is a pause and not a heap of failures."""

from __future__ import annotations

import shutil
from pathlib import Path

from content_pipeline.errors import DiskFull, printable
from content_pipeline.settings import Settings

BYTES_PER_KILOBIT_S = 125
# A generous guess at an encoded picture; copied ones are bounded by the recording itself.
PICTURE_KBPS = 8_000


def needed_bytes(input_bytes: int, settings: Settings) -> int:
    """A multiple of the input, and the largest montage the settings allow."""
    kbps = PICTURE_KBPS + settings.render.audio_bitrate_kbps
    montage_bytes = int(settings.output.max_duration_s * kbps * BYTES_PER_KILOBIT_S)
    return int(input_bytes * settings.queue.space_factor) + montage_bytes


def check_space(input_bytes: int, settings: Settings) -> None:
    needed = needed_bytes(input_bytes, settings)
    for folder in (settings.state_dir.absolute(), settings.output_dir.absolute()):
        free = free_bytes(folder)
        if free < needed:
            raise DiskFull(
                f"{printable(folder)} has {free / 1e9:.1f} GB free; {needed / 1e9:.1f} GB is needed to continue"
            )


def free_bytes(folder: Path) -> int:
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free

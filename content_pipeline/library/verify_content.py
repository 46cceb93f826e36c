"""Reading recordings again, to find those that changed without a sign.

A signature tells of every ordinary change. Bit rot, a tool that restores all times, a share that keeps no
change time: those only reading finds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from content_pipeline.errors import PipelineError
from content_pipeline.manifest.videos import Videos
from content_pipeline.media.fingerprint import matches
from content_pipeline.media.source import open_source


@dataclass(frozen=True)
class VerifyReport:
    read: int
    changed: tuple[Path, ...]
    unreadable: int


def scrub(
    known: Videos, share: float, random: Callable[[], float], alive: Callable[[], None] = lambda: None
) -> VerifyReport:
    """Read a share of all recordings in full. One that changed forgets its signature, and is done again."""
    read, unreadable = 0, 0
    changed: list[Path] = []
    for video in known.all():
        if video.full is None or random() >= share:
            continue
        try:
            with open_source(video.path, video.root) as source:
                if not source.signature.matches(video.signature):
                    continue  # the next plan sees it anyway
                same = matches(source, video.full, lambda _fraction: alive())
                source.check_unchanged()
        except PipelineError:
            unreadable += 1
            continue
        read += 1
        if not same:
            known.save(replace(video, signature="", full=None))
            changed.append(video.path)
    return VerifyReport(read, tuple(changed), unreadable)

"""Named points at which a test kills the program or makes it hang, to prove that nothing is lost. Idle in production.

`CONTENT_AI_KILL_AT=published` ends the command with SIGKILL, as a power cut would, when it gets there:
in whichever of its processes that is. `child:published` ends only the process that gets there; `hang:published` makes
it hang there, in C; `stop:published` stops it there until it is sent SIGCONT. Several are separated by commas.
"""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from content_pipeline.stage import STAGES, video_stages_and_parts

# In the order in which `process` reaches them.
PROCESSING_POINTS = (
    "scanned",
    "planned",
    "enqueued",
    "claimed",
    "identified",
    "run_created",
    *(f"{stage}_sealed" for stage in video_stages_and_parts()),
    "staged",
    "announced",
    "published",
    "run_ended",
    "before_commit",
    "committed",
)
# In the order in which `tune --apply` reaches them.
CALIBRATION_POINTS = (
    "claimed",
    "calibration_sealed",
    "calibration_decided",
    "run_ended",
    "before_commit",
    "committed",
)
# Reached only where a file that was published before is replaced or taken away.
REPLACING_POINTS = ("exchanged", "taken_out")

_ALL = {*PROCESSING_POINTS, *CALIBRATION_POINTS, *REPLACING_POINTS, *(f"{spec.name}_sealed" for spec in STAGES)}
_main = os.getpid()


def reached(point: str) -> None:
    assert point in _ALL, f"the lists above do not know the point {point}"
    wanted = os.environ.get("CONTENT_AI_KILL_AT", "").split(",")
    if f"stop:{point}" in wanted:
        os.kill(os.getpid(), signal.SIGSTOP)
    if f"child:{point}" in wanted:
        os.kill(os.getpid(), signal.SIGKILL)
    if f"hang:{point}" in wanted:
        _hang()
    if point in wanted:
        os.kill(_main, signal.SIGKILL)
        signal.pause()  # a child dies with its parent, a moment later


def _hang() -> NoReturn:
    import ctypes

    pause = ctypes.CDLL(None).pause
    while True:
        pause()

"""Named points at which a test kills the program or makes it hang, to prove that nothing is lost. Idle in production.

`CONTENT_AI_KILL_AT=published` ends the command with SIGKILL, as a power cut would, when it gets there:
in whichever of its processes that is. `child:published` ends only the process that gets there; `hang:published` makes
it hang there, in C; `stop:published` stops it there until it is sent SIGCONT. `file_in_use:energy_entered` raises the
error with that code, and `file_in_use*2:energy_entered` only the first two times in a process. Several are separated by
commas; errors come first.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from typing import NoReturn

from content_pipeline.errors import error_with_code
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
# At each try of a step: where its work begins, and where it is done and only its records are missing.
STEP_POINTS = tuple(f"{spec.name}_{where}" for spec in STAGES for where in ("entered", "left"))

_ALL = {
    *PROCESSING_POINTS,
    *CALIBRATION_POINTS,
    *REPLACING_POINTS,
    *STEP_POINTS,
    *(f"{spec.name}_sealed" for spec in STAGES),
}
_main = os.getpid()
_KILLING = ("", "child", "hang", "stop")
_raised: Counter[str] = Counter()


def failpoint(point: str) -> None:
    assert point in _ALL, f"the lists above do not know the point {point}"
    wanted = os.environ.get("CONTENT_AI_KILL_AT", "").split(",")
    _raise_errors(point, wanted)
    if f"stop:{point}" in wanted:
        os.kill(os.getpid(), signal.SIGSTOP)
    if f"child:{point}" in wanted:
        os.kill(os.getpid(), signal.SIGKILL)
    if f"hang:{point}" in wanted:
        _hang()
    if point in wanted:
        os.kill(_main, signal.SIGKILL)
        signal.pause()  # a child dies with its parent, a moment later


def _raise_errors(point: str, wanted: list[str]) -> None:
    for one in wanted:
        what, _, where = one.rpartition(":")
        if where == point and what not in _KILLING:
            code, _, most = what.partition("*")
            _raised[one] += 1
            if not most or _raised[one] <= int(most):
                raise error_with_code(code, f"on purpose, at {point}")


def _hang() -> NoReturn:
    import ctypes

    pause = ctypes.CDLL(None).pause
    while True:
        pause()

"""A child of the real command that hangs without dying."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from content_pipeline.system.process_identity import state_of
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually


def test_a_stopped_child_is_ended_as_stalled_with_the_stack_it_hung_in(tmp_path: Path, samples_folder: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    shutil.copy(samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),)), library / "game.mp4")
    # The best-behaved of encoders, slowed down: the child waits for it, and can be stopped meanwhile.
    slow = ("render.mode=encode", "render.preset=veryslow", "render.fps=240", "render.crf=0")
    queue = ("queue.stall_s=8", "queue.max_attempts=1", "queue.heartbeat_s=0.5", "library.settle_s=0")
    chosen = [part for one in (*slow, *queue) for part in ("--set", one)]
    command = [sys.executable, "-m", "content_pipeline.cli", "process", "--input", str(library), "--json", *chosen]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        try:
            eventually(lambda: _encoders(process.pid), "ffmpeg runs")
            ((child, ffmpeg),) = _encoders(process.pid)
            os.kill(child, signal.SIGSTOP)
            told = json.loads(process.communicate(timeout=120)[0])
        finally:
            process.kill()
    (video,) = told["videos"]
    assert (video["status"], video["error_code"]) == ("failed", "stalled")
    assert f"it hung in process {child}, stopped" in video["error"]
    assert "ffmpeg.py" in video["error"] and "run_ffmpeg" in video["error"]
    assert "Current thread" in "".join(log.read_text() for log in tmp_path.glob(".content-ai/logs/*.log"))
    assert all(state_of(pid) in ("", "Z") for pid in (child, ffmpeg))


def _encoders(pid: int) -> list[tuple[int, int]]:
    """Each child that waits for an encoder, and the encoder."""
    waiting = [(child, grandchild) for child in _children(pid) for grandchild in _children(child)]
    return [(child, ffmpeg) for child, ffmpeg in waiting if b"-progress" in _command(ffmpeg)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []

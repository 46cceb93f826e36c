"""The ffmpeg child: watched, limited, named when it fails, and gone when its parent is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import av
import psutil
import pytest

from content_pipeline.errors import CorruptMedia, DiskFull, FfmpegFailed, FfmpegStalled, FfmpegTimedOut, OutOfMemory
from content_pipeline.media.ffmpeg import Watch, complaint, run_ffmpeg
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.eventually import eventually

CALM = Watch(time_limit_s=60, stall_limit_s=30, memory_bytes=4 << 30)
ENDLESS = ("-re", "-f", "lavfi", "-i", "testsrc=s=64x64:r=25", "-f", "null", "-")


def is_at_work(process: psutil.Process) -> bool:
    """Not a question about its version, which imageio-ffmpeg asks first."""
    try:
        return "ffmpeg" in process.name() and "-re" in process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return False


def _children() -> list[psutil.Process]:
    return [child for child in psutil.Process().children(recursive=True) if "ffmpeg" in child.name()]


def test_what_it_made_is_counted() -> None:
    outcome = run_ffmpeg(["-f", "lavfi", "-i", "testsrc=s=64x64:r=25:d=2", "-f", "null", "-"], CALM)
    assert outcome.frames == 50
    assert outcome.decode_errors == 0


def test_damage_inside_a_picture_is_complained_of_and_a_clean_file_is_not(tmp_path: Path) -> None:
    whole = samples.recording(tmp_path, "whole.mp4", seconds=2, bursts=())
    assert complaint(f"file:{whole}", CALM) is None
    data = bytearray(whole.read_bytes())
    with av.open(str(whole)) as container:
        packet = [packet for packet in container.demux(video=0) if packet.size and not packet.is_keyframe][20]
    assert packet.pos is not None
    middle = packet.pos + packet.size // 3
    data[middle : middle + 24] = bytes(24)
    (tmp_path / "damaged.mp4").write_bytes(data)
    said = complaint(f"file:{tmp_path / 'damaged.mp4'}", CALM)
    assert said is not None
    assert said.startswith("h264: ")
    assert "0x" not in said


def test_one_that_was_stopped_has_found_nothing(tmp_path: Path) -> None:
    whole = samples.recording(tmp_path, "whole.mp4", seconds=2, bursts=())
    with pytest.raises((OutOfMemory, FfmpegFailed)):
        complaint(f"file:{whole}", Watch(time_limit_s=60, stall_limit_s=30, memory_bytes=1 << 24))


def test_one_that_takes_too_long_is_ended() -> None:
    with pytest.raises(FfmpegTimedOut, match="time_limit_s"):
        run_ffmpeg(ENDLESS, Watch(time_limit_s=0.8, stall_limit_s=30, memory_bytes=4 << 30))
    assert not _children()


def test_one_that_stands_still_is_ended() -> None:
    reading, writing = os.pipe()
    try:
        with pytest.raises(FfmpegStalled, match="stall_limit_s"):
            run_ffmpeg(
                ["-f", "rawvideo", "-video_size", "16x16", "-i", f"pipe:{reading}", "-f", "null", "-"],
                Watch(time_limit_s=60, stall_limit_s=0.8, memory_bytes=4 << 30),
                descriptors=(reading,),
            )
    finally:
        os.close(reading)
        os.close(writing)
    assert not _children()


def test_an_interrupt_ends_the_child_too() -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_ffmpeg(ENDLESS, CALM, expected_s=60, progress=interrupt)
    assert not _children()


def test_the_child_dies_with_a_parent_that_is_killed() -> None:
    script = (
        "from content_pipeline.media.ffmpeg import Watch, run_ffmpeg\n"
        f"run_ffmpeg({list(ENDLESS)!r}, Watch(60, 30, 4 << 30))\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script])
    try:
        family = psutil.Process(parent.pid)
        child = eventually(lambda: next(filter(is_at_work, family.children()), None), "ffmpeg runs")
        parent.send_signal(signal.SIGKILL)
        parent.wait()
        eventually(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE, "ffmpeg is gone")
    finally:
        parent.kill()
        parent.wait()


def test_what_it_said_is_in_the_message() -> None:
    with pytest.raises(FfmpegFailed, match="no_such_filter"):
        run_ffmpeg(["-f", "lavfi", "-i", "testsrc=d=1", "-vf", "no_such_filter", "-f", "null", "-"], CALM)


def test_input_that_makes_no_sense_is_corrupt_media(tmp_path: Path) -> None:
    (tmp_path / "noise.mp4").write_bytes(b"\0\0\0\x18ftypmp42" + bytes(range(256)) * 40)
    with pytest.raises(CorruptMedia):
        run_ffmpeg(["-i", f"file:{tmp_path / 'noise.mp4'}", "-f", "null", "-"], CALM)


def test_output_past_its_limit_counts_as_a_full_disk(tmp_path: Path) -> None:
    watch = Watch(time_limit_s=60, stall_limit_s=30, memory_bytes=4 << 30, output_bytes=200_000)
    arguments = ["-f", "lavfi", "-i", "testsrc2=s=320x240:d=4", "-c:v", "rawvideo", "-f", "nut", f"{tmp_path / 'big'}"]
    with pytest.raises(DiskFull):
        run_ffmpeg(arguments, watch)


def test_the_environment_does_not_reach_the_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FFREPORT", f"file={tmp_path / 'report.log'}")
    run_ffmpeg(["-f", "lavfi", "-i", "testsrc=d=0.2", "-f", "null", "-"], CALM)
    assert not (tmp_path / "report.log").exists()


def test_progress_is_throttled_and_ends_high() -> None:
    seen: list[float] = []
    run_ffmpeg(
        ["-f", "lavfi", "-i", "testsrc=s=64x64:r=25:d=20", "-f", "null", "-"], CALM, expected_s=20, progress=seen.append
    )
    assert seen == sorted(seen)
    assert seen[-1] > 0.98
    assert len(seen) <= 101

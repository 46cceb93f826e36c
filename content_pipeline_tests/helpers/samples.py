"""Small recordings made on the spot: every picture is recognisable, and so is every moment of sound.

    path = samples.recording(folder, "plain.mp4", seconds=8, gop=30)

The container follows from the name. The sound is noise, quiet but for loud `bursts`. A recording that was made with the
same options is not made again, so a folder for the whole test session makes each of them once.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from content_pipeline.media.ffmpeg import ffmpeg_exe

Burst = tuple[float, float]
QUIET, LOUD = 0.02, 0.6


def recording(
    folder: Path,
    name: str,
    *,
    seconds: float = 8.0,
    size: tuple[int, int] = (320, 180),
    fps: float = 30.0,
    gop: int = 30,
    codec: str = "libx264",
    pixel_format: str = "yuv420p",
    bframes: int = 2,
    open_gop: bool = False,
    variable_rate: bool = False,
    rotation_degrees: int = 0,
    sound: str | None = "aac",
    rate_hz: int = 44_100,
    channels: int = 2,
    bursts: Sequence[Burst] = ((2.0, 3.0), (5.0, 6.0)),
    sound_offset_s: float = 0.0,
    silent_first_track: bool = False,
    start_s: float = 0.0,
    more: Sequence[str] = (),
) -> Path:
    """Make a recording, or find it made. `more` are further output options of ffmpeg, as they are."""
    options = sorted((option, value) for option, value in locals().items() if option not in ("folder", "name"))
    path = folder / hashlib.sha256(repr(options).encode()).hexdigest()[:12] / name
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    inputs = ["-f", "lavfi", "-i", _pictures(seconds, size, fps, variable_rate)]
    maps = ["-map", "0:v"]
    if silent_first_track:
        inputs += ["-f", "lavfi", "-t", f"{seconds}", "-i", "anullsrc=r=48000:cl=stereo"]
        maps += ["-map", "1:a"]
    if sound is not None:
        inputs += ["-itsoffset", f"{sound_offset_s}", "-f", "lavfi", "-i", _noise(seconds, rate_hz, channels, bursts)]
        maps += ["-map", f"{2 if silent_first_track else 1}:a", "-c:a", sound]
    coding = ["-c:v", codec, "-pix_fmt", pixel_format, "-g", str(gop), *_coder(codec, bframes, open_gop)]
    timing = ["-fps_mode", "vfr" if variable_rate else "cfr", "-output_ts_offset", f"{start_s}"]
    _make(path, [*inputs, *maps, *coding, *timing, *more], rotation_degrees)
    return path


def _pictures(seconds: float, size: tuple[int, int], fps: float, variable_rate: bool) -> str:
    source = f"testsrc2=s={size[0]}x{size[1]}:r={fps}:d={seconds}"
    # Odd seconds keep every fifth picture only.
    return f"{source},select='if(mod(floor(t),2),not(mod(n,5)),1)'" if variable_rate else source


def _noise(seconds: float, rate_hz: int, channels: int, bursts: Sequence[Burst]) -> str:
    loud = "+".join(f"between(t,{start},{end})" for start, end in bursts) or "0"
    level = f"({QUIET}+{LOUD - QUIET}*min(1,{loud}))"
    one = "|".join(f"(random({channel})*2-1)*{level}" for channel in range(channels))
    return f"aevalsrc='{one}':s={rate_hz}:d={seconds}"


def _coder(codec: str, bframes: int, open_gop: bool) -> list[str]:
    if codec == "libx264":
        parameters = f"scenecut=0:bframes={bframes}:b-adapt=0:open-gop={int(open_gop)}"
        return ["-preset", "ultrafast", "-x264-params", parameters]
    if codec == "libx265":
        return ["-preset", "ultrafast", "-x265-params", "log-level=none"]
    if codec == "libvpx":
        return ["-deadline", "realtime", "-cpu-used", "8"]
    return []


def _make(path: Path, arguments: list[str], rotation_degrees: int) -> None:
    """Written aside and renamed: tests that run side by side never see half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{os.getpid()}.{path.name}")
    _ffmpeg([*arguments, str(part)])
    if rotation_degrees:
        turned = path.with_name(f".{os.getpid()}.turned.{path.name}")
        _ffmpeg(["-display_rotation", str(-rotation_degrees), "-i", str(part), "-map", "0", "-c", "copy", str(turned)])
        turned.replace(part)
    part.replace(path)


def _ffmpeg(arguments: list[str]) -> None:
    done = subprocess.run([ffmpeg_exe(), "-nostdin", "-v", "error", "-y", *arguments], capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"no sample was made: {done.stderr.decode(errors='replace')}")


def damaged(path: Path, target: Path, start: float, end: float) -> Path:
    """A copy of which the bytes from share `start` to share `end` are zero."""
    data = bytearray(path.read_bytes())
    first, last = int(len(data) * start), int(len(data) * end)
    data[first:last] = bytes(last - first)
    target.write_bytes(data)
    return target


def truncated(path: Path, target: Path, share: float) -> Path:
    """A copy of the first part only."""
    data = path.read_bytes()
    target.write_bytes(data[: int(len(data) * share)])
    return target

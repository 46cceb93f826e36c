"""What the benches work on: real gameplay where it is at hand, else recordings made on the spot."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from content_pipeline.media.ffmpeg import ffmpeg_exe
from content_pipeline_tests.helpers import samples

FOOTAGE = Path(__file__).resolve().parents[2] / "shared" / "footage"
LOOP_S = 600
# Busy enough to find highlights in, and to take as many bytes as a recording does.
_BURSTS = ((5.0, 9.0), (14.0, 15.0), (22.0, 28.0), (33.0, 34.5))


def gameplay(folder: Path) -> Path:
    """40 s at 1280x720, 30 fps, a keyframe every 2 s, with fights."""
    real = FOOTAGE / "gameplay" / "base_40s.mp4"
    if real.exists():
        return real
    noise = ["-vf", "noise=alls=12:allf=t", "-b:v", "1M", "-maxrate", "1M", "-bufsize", "2M"]
    return samples.recording(folder, "base.mp4", seconds=40, size=(1280, 720), gop=60, bursts=_BURSTS, more=noise)


def looped(source: Path, target: Path, times: int) -> Path:
    """The same again and again, packet by packet, as when recordings are joined."""
    _ffmpeg(["-stream_loop", str(times - 1), "-i", str(source), "-map", "0", "-c", "copy", str(target)])
    return target


def of_size(source: Path, target: Path, size_bytes: int) -> Path:
    return looped(source, target, -(-size_bytes // source.stat().st_size))


def with_gop(source: Path, target: Path, seconds: float, gop_s: float) -> Path:
    """Encoded anew with another distance between keyframes."""
    keyframes = ["-force_key_frames", f"expr:gte(t,n_forced*{gop_s})", "-g", "9999", "-sc_threshold", "0"]
    picture = ["-c:v", "libx264", "-preset", "superfast", *keyframes, "-c:a", "copy"]
    _ffmpeg(["-stream_loop", "-1", "-i", str(source), "-t", str(seconds), *picture, str(target)])
    return target


def long_sound(folder: Path, seconds: int) -> Path:
    """Noise with bursts over a tone, beside a small picture; hours are ten minutes again and again."""
    if seconds <= LOOP_S:
        return _sound(folder / f"sound-{seconds}.mp4", seconds)
    assert seconds % LOOP_S == 0
    return looped(_sound(folder / f"sound-{LOOP_S}.mp4", LOOP_S), folder / f"sound-{seconds}.mp4", seconds // LOOP_S)


def _sound(target: Path, seconds: int) -> Path:
    if not target.exists():
        sound = "aevalsrc='(random(0)*2-1)*(0.02+0.5*lt(mod(t,7),0.4))+0.1*sin(440*t*6.28)':s=44100"
        coding = ["-c:v", "libx264", "-preset", "ultrafast", "-c:a", "aac", "-ac", "2", "-t", str(seconds)]
        _ffmpeg(["-f", "lavfi", "-i", "color=s=64x36:r=30", "-f", "lavfi", "-i", sound, *coding, str(target)])
    return target


def random_bytes(target: Path, size_bytes: int) -> Path:
    with target.open("wb") as out:
        for _ in range(size_bytes >> 20):
            out.write(os.urandom(1 << 20))
    return target


def _ffmpeg(arguments: list[str]) -> None:
    subprocess.run([ffmpeg_exe(), "-nostdin", "-v", "error", "-y", *arguments], check=True)

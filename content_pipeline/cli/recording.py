"""A recording made from nothing: a moving picture, ambience, music, and a few fights."""

from __future__ import annotations

import wave
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from content_pipeline.media.ffmpeg import Watch, run_ffmpeg

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RATE_HZ = 44_100
SECONDS = 90
FIGHTS_S = ((14.0, 17.5), (33.0, 40.0), (58.0, 60.5), (74.0, 79.0))
WATCH = Watch(time_limit_s=300, stall_limit_s=60, memory_bytes=4 << 30)


def make_recording(target: Path) -> None:
    """Write the recording whole; it is the same every time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent) as folder:
        sound, video = Path(folder) / "sound.wav", Path(folder) / "recording.mp4"
        _write_wave(sound, _sound())
        picture = f"testsrc2=size=640x360:rate=30:duration={SECONDS}"
        run_ffmpeg(
            [
                *("-f", "lavfi", "-i", picture, "-i", f"file:{sound.absolute()}"),
                *("-c:v", "libx264", "-preset", "ultrafast", "-crf", "30", "-g", "60", "-pix_fmt", "yuv420p"),
                *("-c:a", "aac", "-b:a", "128k", "-shortest", f"file:{video.absolute()}"),
            ],
            WATCH,
        )
        video.replace(target)


def _sound() -> NDArray[np.float64]:
    import numpy as np

    random = np.random.default_rng(7)
    time_s = np.arange(SECONDS * RATE_HZ) / RATE_HZ
    ambience = 0.004 * random.standard_normal(len(time_s))
    music = sum(0.01 * np.sin(2 * np.pi * pitch * time_s) for pitch in (220.0, 277.2, 329.6))
    sound = ambience + music * (1 + 0.3 * np.sin(2 * np.pi * 0.5 * time_s))
    for start_s, end_s in FIGHTS_S:
        for shot_s in np.arange(start_s, end_s, 0.18):
            first = int((shot_s + 0.05 * random.random()) * RATE_HZ)
            shot = _shot(random)
            sound[first : first + len(shot)] += shot
    return np.clip(sound, -1.0, 1.0)


def _shot(random: np.random.Generator) -> NDArray[np.float64]:
    import numpy as np

    decay = np.exp(-np.arange(int(0.25 * RATE_HZ)) / (0.05 * RATE_HZ))
    return 0.4 * decay * random.standard_normal(len(decay))


def _write_wave(path: Path, sound: NDArray[np.float64]) -> None:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE_HZ)
        file.writeframes((sound * 32767).astype("<i2").tobytes())

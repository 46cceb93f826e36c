"""The demo's recording, made from nothing: a small space shooter with ambience, music and a few fights."""

from __future__ import annotations

import wave
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from content_pipeline.cli.demo_picture import FPS, HEIGHT, WIDTH, frames
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
    sound, shots_s = _sound()
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent) as folder:
        wave_file, picture, video = (Path(folder) / name for name in ("sound.wav", "picture.mp4", "recording.mp4"))
        _write_wave(wave_file, sound)
        _write_picture(picture, shots_s)
        run_ffmpeg(
            [
                *("-i", f"file:{picture.absolute()}", "-i", f"file:{wave_file.absolute()}", "-c:v", "copy"),
                *("-c:a", "aac", "-b:a", "128k", "-shortest", f"file:{video.absolute()}"),
            ],
            WATCH,
        )
        video.replace(target)


def _write_picture(path: Path, shots_s: list[float]) -> None:
    import av
    import numpy as np

    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"preset": "ultrafast", "crf": "28", "g": "40"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for image in frames(SECONDS, shots_s):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.asarray(image), format="rgb24")))
        container.mux(stream.encode(None))


def _sound() -> tuple[NDArray[np.float64], list[float]]:
    """The sound, and the moments of its shots."""
    import numpy as np

    random = np.random.default_rng(7)
    time_s = np.arange(SECONDS * RATE_HZ) / RATE_HZ
    ambience = 0.004 * random.standard_normal(len(time_s))
    music = sum(0.01 * np.sin(2 * np.pi * pitch * time_s) for pitch in (220.0, 277.2, 329.6))
    sound = ambience + music * (1 + 0.3 * np.sin(2 * np.pi * 0.5 * time_s))
    shots_s: list[float] = []
    for start_s, end_s in FIGHTS_S:
        for shot_s in np.arange(start_s, end_s, 0.18):
            first = int((shot_s + 0.05 * random.random()) * RATE_HZ)
            shot = _shot(random)
            sound[first : first + len(shot)] += shot
            shots_s.append(first / RATE_HZ)
    return np.clip(sound, -1.0, 1.0), shots_s


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

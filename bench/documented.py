"""The baseline: the documented way, by the book, with librosa and moviepy.

    python -m bench.documented RECORDING SPANS.json MONTAGE.mp4

Whole digests first, then the sound to a file and into librosa, the threshold of mean and deviation, and moviepy
cuts. On real footage that threshold finds nothing, so the cuts are those of SPANS.json: both ways make the same
montage. Encoder settings are ours.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from content_pipeline.settings import RenderSettings


def process(recording: Path, spans: Sequence[tuple[float, float]], target: Path) -> None:
    digest(recording)
    with TemporaryDirectory() as folder:
        detect(percussive_rms(extract_sound(recording, Path(folder) / "sound.wav")))
    cut(recording, spans, target)


def digest(recording: Path) -> str:
    hasher = hashlib.blake2b()
    with recording.open("rb") as file:
        while chunk := file.read(1 << 16):
            hasher.update(chunk)
    return hasher.hexdigest()


def extract_sound(recording: Path, target: Path) -> Path:
    from moviepy import VideoFileClip

    with VideoFileClip(str(recording)) as clip:
        clip.audio.write_audiofile(str(target), fps=22_050, logger=None)
    return target


def percussive_rms(sound: Path) -> object:
    import librosa

    samples, _ = librosa.load(sound, sr=22_050)
    percussive = librosa.effects.hpss(samples, margin=(1.0, 5.0))[1]
    return librosa.feature.rms(y=percussive, frame_length=2048, hop_length=512)[0]


def detect(curve: object) -> list[tuple[int, int]]:
    import numpy as np

    values = np.asarray(curve)
    above = values > max(0.10, float(values.mean() + 2.5 * values.std()))
    edges = np.flatnonzero(np.diff(above.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    return [(int(first), int(end)) for first, end in edges]


def cut(recording: Path, spans: Sequence[tuple[float, float]], target: Path) -> None:
    from moviepy import VideoFileClip, concatenate_videoclips

    render = RenderSettings()
    with VideoFileClip(str(recording)) as clip:
        montage = concatenate_videoclips([clip.subclipped(start_s, end_s) for start_s, end_s in spans])
        montage.write_videofile(
            str(target),
            codec=render.codec,
            preset=render.preset,
            fps=render.fps,
            audio_codec="aac",
            audio_fps=render.audio_rate_hz,
            ffmpeg_params=["-crf", str(render.crf)],
            temp_audiofile_path=str(target.parent),
            logger=None,
        )


if __name__ == "__main__":
    process(Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text()), Path(sys.argv[3]))

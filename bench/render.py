"""The three ways to cut against moviepy, for the same cuts and the same encoder settings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Literal

from bench import documented, recordings
from bench.measure import Row, cost_of

CLIPS, CLIP_S, EVERY_S = 12, 4.8, 9.7
LENGTH_S = CLIPS * EVERY_S + 5
SPANS = [(round(3.1 + number * EVERY_S, 3), round(3.1 + number * EVERY_S + CLIP_S, 3)) for number in range(CLIPS)]
MODES: tuple[tuple[Literal["copy", "smart", "encode"], float], ...] = (("copy", 50), ("smart", 3), ("encode", 1.5))


def rows(folder: Path) -> Iterator[Row]:
    base = recordings.gameplay(folder)
    close = recordings.looped(base, folder / "close.mp4", round(LENGTH_S / 40) + 1)
    far = recordings.with_gop(base, folder / "far.mp4", LENGTH_S, gop_s=8)
    theirs = cost_of(lambda: documented.cut(close, SPANS, folder / "moviepy.mp4"), _load_moviepy)
    for mode, target in MODES:
        ours = cost_of(partial(_montage, close, mode, folder / f"{mode}.mp4"), _load_ours)
        yield Row(f"render {CLIPS} clips, {mode}: CPU", ours.cpu_s, theirs.cpu_s, "s", target, "moviepy")
    proof, plain = (cost_of(partial(act, folder / "copy.mp4"), _load_ours) for act in (_prove, _decode))
    yield Row("prove that the copied montage decodes: CPU", proof.cpu_s, plain.cpu_s, "s", 1, "ffmpeg's decoding")
    smart = cost_of(partial(_montage, far, "smart", folder / "far-smart.mp4"), _load_ours)
    yield Row("render, smart, keyframes 8 s apart: CPU", smart.cpu_s, theirs.cpu_s, "s", 1.5, "moviepy")
    chosen = [cost_of(partial(_chosen_mode, file), _load_ours).value for file in (close, far)]
    right = sum(mode == wanted for mode, wanted in zip(chosen, ("copy", "smart"), strict=True))
    note = f"keyframes 2 s apart: {chosen[0]}; 8 s apart: {chosen[1]}"
    yield Row("auto chooses copy, then smart", right, 2, "", 1, better="more", note=note)


def _load_moviepy() -> None:
    import moviepy  # noqa: F401


def _load_ours() -> None:
    import content_pipeline.stages.montage  # noqa: F401


def _montage(recording: Path, mode: Literal["copy", "smart", "encode"], target: Path) -> float:
    from content_pipeline.media.probe import probe
    from content_pipeline.media.render.clip import ClipOrder, render_clip
    from content_pipeline.media.render.join import join
    from content_pipeline.media.render.verify import verify_montage
    from content_pipeline.media.source import open_source
    from content_pipeline.media.spans import Span
    from content_pipeline.settings import LimitSettings, RenderSettings

    render, limits = RenderSettings(mode=mode), LimitSettings()
    clip_paths = [target.with_suffix(f".{number}.nut") for number in range(len(SPANS))]
    with open_source(recording) as source:
        info = probe(source)
        clips = [
            render_clip(ClipOrder(source, info, 0, Span(*span), mode, render, limits, clip_path))
            for span, clip_path in zip(SPANS, clip_paths, strict=True)
        ]
    joined = join(clips, render, target)
    verify_montage(joined, None if mode == "copy" else sum(end_s - start_s for start_s, end_s in SPANS))
    return joined.duration_s


def _prove(montage: Path) -> None:
    """What a montage stage does beyond rendering, once for each montage of copied packets."""
    from content_pipeline.media.ffmpeg import Watch, complaint

    assert complaint(f"file:{montage}", Watch(600, 60, 6 << 30)) is None


def _decode(montage: Path) -> None:
    import subprocess

    from content_pipeline.media.ffmpeg import ffmpeg_exe

    command = [ffmpeg_exe(), "-nostdin", "-v", "error", "-threads", "1", "-i", str(montage), "-f", "null", "-"]
    subprocess.run(command, check=True)


def _chosen_mode(recording: Path) -> str:
    from content_pipeline.media.probe import probe
    from content_pipeline.media.render.render_mode import choose_mode
    from content_pipeline.media.source import open_source
    from content_pipeline.media.spans import Span
    from content_pipeline.settings import RenderSettings

    with open_source(recording) as source:
        info = probe(source)
        return choose_mode(source, info, [Span(*span) for span in SPANS], RenderSettings()).mode

"""One call from a recording to its montage, as the tests here need it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from content_pipeline.media.probe import MediaInfo, probe
from content_pipeline.media.render.clip import Clip, ClipOrder, Mode, render_clip
from content_pipeline.media.render.encoding import FrameSize
from content_pipeline.media.render.join import JoinedMontage, join
from content_pipeline.media.render.render_mode import ModeChoice, choose_mode
from content_pipeline.media.render.verify import verify_montage
from content_pipeline.media.source import open_source
from content_pipeline.media.spans import Span
from content_pipeline.settings import LimitSettings, RenderSettings
from content_pipeline_tests.helpers import montage_probe

LIMITS = LimitSettings()
FAST = RenderSettings(preset="ultrafast")


@dataclass(frozen=True)
class Rendered:
    choice: ModeChoice
    info: MediaInfo
    clips: tuple[Clip, ...]
    montage: JoinedMontage


def render(
    path: Path, spans: Sequence[Span], folder: Path, settings: RenderSettings = FAST, track: int | None = 0
) -> Rendered:
    """Choose, cut, join and verify."""
    with open_source(path) as source:
        info = probe(source)
        choice = choose_mode(source, info, spans, settings)
        clips = tuple(
            render_clip(ClipOrder(source, info, track, span, choice.mode, settings, LIMITS, folder / f"{index}.nut"))
            for index, span in enumerate(spans)
        )
    montage = join(clips, settings, folder / "montage.mp4")
    planned_s = None if choice.mode == "copy" else sum(span.duration_s for span in spans)
    verify_montage(montage, planned_s)
    return Rendered(choice, info, clips, montage)


def clip(path: Path, span: Span, mode: Mode, target: Path, size: FrameSize | None = None) -> Clip:
    """One clip of a recording's first track."""
    with open_source(path) as source:
        info = probe(source)
        track = 0 if info.audio else None
        return render_clip(ClipOrder(source, info, track, span, mode, FAST, LIMITS, target, size))


@cache
def _decoded(path: Path, track: int, turns: int, origin_s: float, until_s: float | None) -> montage_probe.Decoded:
    """Recordings are decoded once, whichever ways they are rendered."""
    return montage_probe.decode(path, track=track, turns=turns, origin_s=origin_s, until_s=until_s)


def worst_error(rendered: Rendered, path: Path, track: int = 0, until_s: float | None = None) -> montage_probe.CutError:
    """The largest distances between the montage and what its cuts say, over all cuts."""
    assert rendered.info.video is not None
    turns = -rendered.info.video.rotation_degrees // 90
    recording = _decoded(path, track, turns, rendered.info.origin_s, until_s)
    return montage_probe.worst(montage_probe.measure(rendered.montage, recording))


def plan_error_frames(rendered: Rendered, spans: Sequence[Span]) -> float:
    """How far the cuts lie from the plan, in frames of the recording."""
    assert rendered.info.video is not None
    pairs = [(cut.source, span) for cut, span in zip(rendered.montage.cuts, spans, strict=True)]
    off_s = max(max(abs(a.start_s - b.start_s), abs(a.end_s - b.end_s)) for a, b in pairs)
    return off_s * rendered.info.video.frame_rate

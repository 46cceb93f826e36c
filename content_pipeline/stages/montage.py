"""Montage: clips cut and joined, checked, and published whole."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from content_pipeline.artifacts import Artifact, Draft, hash_file, publish
from content_pipeline.errors import from_os_error
from content_pipeline.media.render.choice import Choice, choose
from content_pipeline.media.render.clip import Clip, render_clip
from content_pipeline.media.render.join import join
from content_pipeline.media.render.verify import verify_montage
from content_pipeline.media.source import Source
from content_pipeline.media.spans import Span
from content_pipeline.stages.detections import Decision, detections
from content_pipeline.stages.workbench import StageResult, Workbench, obtain

# Name inside the artifact -> ending of the published name.
PUBLISHED = {"montage.mp4": ".mp4", "montage.json": ".json", "sheet.jpg": ".sheet.jpg", "plot.png": ".plot.png"}


@dataclass(frozen=True)
class Cutting:
    """The clips of one montage: what to cut, how, and under which keys."""

    spans: tuple[Span, ...]
    choice: Choice
    clip_keys: tuple[str, ...]


def montage(bench: Workbench, video_key: str) -> StageResult:
    started = time.monotonic()
    decision = detections(bench, video_key)
    content = decision.sound.content
    with bench.open_content(video_key, content.full) as source:
        cutting = _plan_cuts(bench, source, decision)
        key = bench.stage_key("montage", clips=cutting.clip_keys)
        result = obtain(bench, "montage", key, lambda draft: _make(draft, bench, source, decision, cutting))
    outputs, fresh = _publish(bench, video_key, result.artifact, decision.result.artifact)
    return replace(
        result, reused=result.reused and not fresh, seconds=time.monotonic() - started, outputs=outputs
    )


def _plan_cuts(bench: Workbench, source: Source, decision: Decision) -> Cutting:
    spans, content = decision.highlights(), decision.sound.content
    if not spans:
        return Cutting((), Choice("copy", "there is nothing to cut"), ())
    choice = choose(source, content.info, spans, bench.settings.render)
    keys = tuple(
        bench.stage_key(
            "clip",
            content=content.full,
            start_s=span.start_s,
            end_s=span.end_s,
            track=decision.sound.track,
            mode=choice.mode,
        )
        for span in spans
    )
    return Cutting(spans, choice, keys)


def _make(draft: Draft, bench: Workbench, source: Source, decision: Decision, cutting: Cutting) -> None:
    if not cutting.spans:
        draft.facts = {"clips": 0, "montage_s": 0.0, "mode": None, "reason": "no highlights"}
        return
    clips, reused = _cut(bench, source, decision, cutting)
    joined = join(clips, bench.settings.render, draft.path("montage.mp4"))
    verify_montage(joined)
    draft.write_bytes("sheet.jpg", _sheet(source, decision, cutting.spans))
    draft.facts = {
        "clips": len(clips),
        "clips_reused": reused,
        "montage_s": joined.duration_s,
        "mode": cutting.choice.mode,
        "reason": cutting.choice.reason,
    }
    cuts = [
        {"source_start_s": cut.span.start_s, "source_end_s": cut.span.end_s, "start_s": cut.start_s, "end_s": cut.end_s}
        for cut in joined.cuts
    ]
    draft.write_json("montage.json", {"duration_s": joined.duration_s, "mode": cutting.choice.mode, "cuts": cuts})


def _cut(bench: Workbench, source: Source, decision: Decision, cutting: Cutting) -> tuple[list[Clip], int]:
    clips, reused = [], 0
    for number, (span, key) in enumerate(zip(cutting.spans, cutting.clip_keys, strict=True)):

        def report(fraction: float, number: int = number) -> None:
            bench.progress("montage", (number + fraction) / len(cutting.spans))

        def make(draft: Draft, span: Span = span) -> None:
            clip = render_clip(
                source,
                decision.sound.content.info,
                decision.sound.track,
                span,
                cutting.choice.mode,
                bench.settings.render,
                bench.settings.limits,
                draft.path("clip.nut"),
                report,
            )
            draft.facts = clip.as_json()

        result = obtain(bench, "clip", key, make)
        clips.append(Clip.from_json({**result.artifact.facts, "path": str(result.artifact.path("clip.nut"))}))
        reused += result.reused
        report(1.0)
    return clips, reused


def _sheet(source: Source, decision: Decision, spans: tuple[Span, ...]) -> bytes:
    from content_pipeline.media.preview import contact_sheet

    return contact_sheet(source, decision.sound.content.info, sorted(spans))


def _publish(bench: Workbench, video_key: str, made: Artifact, decided: Artifact) -> tuple[tuple[Path, ...], bool]:
    """Put the outputs where people look; without highlights, take back what no longer holds."""
    folder = bench.settings.output_dir.absolute()
    sources = {"plot.png": decided.path("plot.png")} | {name: made.path(name) for name in made.hashes}
    hashes: Mapping[str, str] = {**made.hashes, "plot.png": decided.hashes["plot.png"]}
    outputs, fresh = [], False
    try:
        for name, ending in PUBLISHED.items():
            target = folder / f"{video_key}{ending}"
            if not made.facts["clips"]:
                target.unlink(missing_ok=True)
                continue
            if not _is_same(sources[name], target, hashes[name]):
                publish(sources[name], target)
                fresh = True
            outputs.append(target)
    except OSError as error:
        raise from_os_error(error, folder) from error
    return tuple(outputs), fresh


def _is_same(source: Path, target: Path, recorded: str) -> bool:
    if not target.is_file():
        return False
    return os.path.samefile(source, target) or hash_file(target) == recorded

"""What is checked of a montage, on the file that people open."""

from __future__ import annotations

import warnings

import dagster as dg

from content_pipeline.defs.partitions import VIDEOS
from content_pipeline.media.probe import MediaInfo, probe
from content_pipeline.media.source import open_source
from content_pipeline.stages.context import StageResult

_DESCRIPTIONS = {
    "plays": "The file opens and shows a picture.",
    "duration_matches_plan": "It lasts as long as its cuts, within one frame per cut.",
    "cuts_in_order": "The cuts follow each other without gap or overlap.",
    "has_sound": "It has a sound track.",
}


def check_spec(asset: str, name: str, description: str) -> dg.AssetCheckSpec:
    """A check that is recorded per video."""
    with warnings.catch_warnings():
        # Partitioned checks are marked as a preview in dagster 1.13; drop this once they are not.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return dg.AssetCheckSpec(name, asset=asset, description=description, partitions_def=VIDEOS)


def montage_checks() -> list[dg.AssetCheckSpec]:
    return [check_spec("montage", name, description) for name, description in _DESCRIPTIONS.items()]


def check_montage(result: StageResult) -> tuple[dg.AssetCheckResult, ...]:
    if not result.artifact.facts["clips"]:
        note = {"result": "no highlights: nothing to check"}
        return tuple(dg.AssetCheckResult(check_name=name, passed=True, metadata=note) for name in _DESCRIPTIONS)
    with open_source(next(iter(result.outputs))) as source:
        info = probe(source)
    plan = result.artifact.read_json("montage.json")
    return (
        _plays(info),
        _duration_matches_plan(info, plan["duration_s"], len(plan["cuts"])),
        _cuts_in_order(plan["cuts"]),
        dg.AssetCheckResult(check_name="has_sound", passed=bool(info.audio), metadata={"tracks": len(info.audio)}),
    )


def _plays(info: MediaInfo) -> dg.AssetCheckResult:
    video = info.video
    return dg.AssetCheckResult(
        check_name="plays",
        passed=video is not None and video.frame_rate > 0,
        metadata={"picture": "none" if video is None else f"{video.width}x{video.height} {video.codec}"},
    )


def _duration_matches_plan(info: MediaInfo, planned_s: float, cuts: int) -> dg.AssetCheckResult:
    frame_s = 1 / info.video.frame_rate if info.video is not None and info.video.frame_rate else 0.0
    off_s = abs(info.duration_s - planned_s)
    return dg.AssetCheckResult(
        check_name="duration_matches_plan",
        passed=off_s <= frame_s * (cuts + 1),
        metadata={"planned_s": round(planned_s, 3), "actual_s": round(info.duration_s, 3)},
    )


def _cuts_in_order(cuts: list[dict[str, float]]) -> dg.AssetCheckResult:
    edges = [0.0, *(cut["end_s"] for cut in cuts)]
    worst_s = max(abs(cut["start_s"] - edge) for cut, edge in zip(cuts, edges, strict=False))
    return dg.AssetCheckResult(
        check_name="cuts_in_order",
        passed=worst_s < 0.05,
        metadata={"cuts": len(cuts), "worst_gap_s": round(worst_s, 4)},
    )

from typing import Any

import dagster as dg

from content_pipeline.defs.asset_errors import asset_errors
from content_pipeline.defs.assets.common import asset_options, materialized
from content_pipeline.settings import Settings
from content_pipeline.stages.energy import EnergyResult
from content_pipeline.stages.video import VideoStages


def build(settings: Settings) -> dg.AssetsDefinition:
    @dg.asset(**asset_options(settings, "energy", {"numpy"}))
    def energy(context: dg.AssetExecutionContext, video: dg.ResourceParam[VideoStages]) -> dg.MaterializeResult:
        """The sound as curves, one value every 23 ms: plain level, percussive level, broadband level, punch.

        This is the only stage that decodes the whole recording. Changing a threshold does not run it again.
        """
        with asset_errors("energy", context) as meter:
            made = video.energy()
            metadata = _metadata(made)
        return materialized(context, made.result, metadata, meter)

    return energy


def _metadata(made: EnergyResult) -> dict[str, Any]:
    facts, seconds = made.result.artifact.facts, made.result.seconds
    reports = facts["reports"]
    chosen = next(report for report in reports if report["track"] == made.track)
    speed = {} if made.result.reused else {"speed_x_realtime": round(chosen["decoded_s"] / max(seconds, 1e-6), 1)}
    return {
        "audio_track": made.track,
        "audio_tracks": facts["tracks"],
        "decoded_s": round(chosen["decoded_s"], 3),
        "bad_packets": sum(report["bad_packets"] for report in reports),
        "missing_s": round(chosen["missing_s"], 3),
        **speed,
    }

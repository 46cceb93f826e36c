from typing import Any

import dagster as dg

from content_pipeline.defs.assets.common import asset_options
from content_pipeline.defs.boundary import boundary, materialized
from content_pipeline.settings import Settings
from content_pipeline.stages.context import StageContext
from content_pipeline.stages.energy import Sound
from content_pipeline.stages.energy import energy as run


def build(settings: Settings) -> dg.AssetsDefinition:
    @dg.asset(deps=["fingerprint"], **asset_options(settings, "energy", {"numpy"}))
    def energy(
        context: dg.AssetExecutionContext, stage_context: dg.ResourceParam[StageContext]
    ) -> dg.MaterializeResult:
        """The sound as curves, one value every 23 ms: plain level, percussive level, broadband level, punch.

        This is the only stage that decodes the whole recording. Changing a threshold does not run it again.
        """
        with boundary("energy", context) as meter:
            sound = run(stage_context, context.partition_key)
        return materialized(context, sound.result, _metadata(sound), meter)

    return energy


def _metadata(sound: Sound) -> dict[str, Any]:
    facts, seconds = sound.result.artifact.facts, sound.result.seconds
    reports = facts["reports"]
    chosen = next(report for report in reports if report["track"] == sound.track)
    speed = {} if sound.result.reused else {"speed_x_realtime": round(chosen["decoded_s"] / max(seconds, 1e-6), 1)}
    return {
        "audio_track": sound.track,
        "audio_tracks": facts["tracks"],
        "decoded_s": round(chosen["decoded_s"], 3),
        "bad_packets": sum(report["bad_packets"] for report in reports),
        "missing_s": round(chosen["missing_s"], 3),
        **speed,
    }

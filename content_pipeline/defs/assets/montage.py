from typing import Any

import dagster as dg

from content_pipeline.dagster_runtime import records
from content_pipeline.defs.asset_errors import asset_errors
from content_pipeline.defs.assets.common import RENDER_POOL, asset_options, listed, materialized, picture
from content_pipeline.defs.checks import check_montage, montage_checks
from content_pipeline.errors import printable
from content_pipeline.library.recipe import recipe_of
from content_pipeline.settings import Settings
from content_pipeline.stages.context import StageContext, StageResult
from content_pipeline.stages.video import VideoStages


def build(settings: Settings) -> dg.AssetsDefinition:
    @dg.asset(check_specs=montage_checks(), **asset_options(settings, "montage", {"ffmpeg"}, RENDER_POOL))
    def montage(
        context: dg.AssetExecutionContext,
        stage_context: dg.ResourceParam[StageContext],
        video: dg.ResourceParam[VideoStages],
    ) -> dg.MaterializeResult:
        """The highlights, cut and joined into one video that plays anywhere.

        Clips are cached one by one: changing the order or dropping one renders no clip again. A recording
        without highlights has no montage, and that is a success.
        """
        with asset_errors("montage", context) as meter:
            made = video.montage()
            checks = check_montage(made.result)
            recipe = recipe_of(stage_context.settings)
            recovery = records.of_montage(made, recipe, stage_context.settings)
        return materialized(
            context, made.result, _metadata(made.result), meter, checks, recipe.config_hash, recovery=recovery
        )

    return montage


def _metadata(result: StageResult) -> dict[str, Any]:
    facts = result.artifact.facts
    shown: dict[str, Any] = {"clips": facts["clips"], "montage_s": round(facts["montage_s"], 3)}
    notes = listed("notes", result.notes)
    if not facts["clips"]:
        return {"result": "no highlights: no montage was made", **shown, **notes}
    return {
        **picture("contact_sheet", result.artifact.path("sheet.jpg"), "one picture per highlight"),
        "output": dg.MetadataValue.path(printable(next(iter(result.outputs)))),
        **shown,
        "clips_reused": facts["clips_reused"],
        "mode": facts["mode"],
        "why_this_mode": facts["reason"],
        **notes,
    }

from typing import Any

import dagster as dg

from content_pipeline.agenda import recipe_of
from content_pipeline.defs.assets.common import asset_options
from content_pipeline.defs.boundary import boundary, materialized, picture
from content_pipeline.defs.checks import check_montage, montage_checks
from content_pipeline.errors import printable
from content_pipeline.launcher import records
from content_pipeline.settings import Settings
from content_pipeline.stages.carrier import Carrier
from content_pipeline.stages.montage import montage as run
from content_pipeline.stages.workbench import StageResult, Workbench


def build(settings: Settings, carrier: Carrier) -> dg.AssetsDefinition:
    @dg.asset(deps=["detections"], check_specs=montage_checks(), **asset_options(settings, "montage", {"ffmpeg"}))
    def montage(context: dg.AssetExecutionContext, workbench: dg.ResourceParam[Workbench]) -> dg.MaterializeResult:
        """The highlights, cut and joined into one video that plays anywhere.

        Clips are cached one by one: changing the order or dropping one renders no clip again. A recording
        without highlights has no montage, and that is a success.
        """
        with boundary("montage", carrier, context) as meter:
            made = run(workbench, context.partition_key)
            checks = check_montage(made.result)
            recipe = recipe_of(workbench.settings)
            metadata = {**_metadata(made.result), **records.of_montage(made, recipe)}
        return materialized(context, made.result, metadata, carrier, meter, checks, recipe.config_hash)

    return montage


def _metadata(result: StageResult) -> dict[str, Any]:
    facts = result.artifact.facts
    shown: dict[str, Any] = {"clips": facts["clips"], "montage_s": round(facts["montage_s"], 3)}
    if not facts["clips"]:
        return {**shown, "result": "no highlights: no montage was made"}
    return {
        **shown,
        "clips_reused": facts["clips_reused"],
        "mode": facts["mode"],
        "why_this_mode": facts["reason"],
        "output": dg.MetadataValue.path(printable(next(iter(result.outputs)))),
        **picture("contact_sheet", result.artifact.path("sheet.jpg"), "one picture per highlight"),
    }

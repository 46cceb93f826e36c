from collections import Counter
from typing import Any

import dagster as dg

from content_pipeline.defs.assets.common import asset_options
from content_pipeline.defs.boundary import boundary, materialized, picture
from content_pipeline.defs.checks import check_spec
from content_pipeline.settings import Settings
from content_pipeline.stages.context import StageContext
from content_pipeline.stages.detections import Decision
from content_pipeline.stages.detections import detections as run


def build(settings: Settings) -> dg.AssetsDefinition:
    @dg.asset(
        deps=["energy"],
        check_specs=[check_spec("detections", "within_the_video", "Every highlight lies inside the recording.")],
        **asset_options(settings, "detections", {"python"}),
    )
    def detections(
        context: dg.AssetExecutionContext, stage_context: dg.ResourceParam[StageContext]
    ) -> dg.MaterializeResult:
        """The moments worth watching, and for every dropped moment the rule that dropped it.

        Reads the cached curves only: deciding again takes milliseconds.
        """
        with boundary("detections", context) as meter:
            decision = run(stage_context, context.partition_key)
        return materialized(context, decision.result, _metadata(decision), meter, (_within_the_video(decision),))

    return detections


def _metadata(decision: Decision) -> dict[str, Any]:
    artifact = decision.result.artifact
    found = artifact.read_json("detections.json")
    dropped = Counter(item["dropped_by"] for item in found["candidates"] + found["dropped_highlights"])
    dropped.pop(None, None)
    return {
        "events": artifact.facts["events"],
        "highlights": artifact.facts["highlights"],
        "highlight_s": round(artifact.facts["highlight_s"], 3),
        "candidates": artifact.facts["candidates"],
        "dropped": dg.MetadataValue.json(dict(dropped)),
        **picture("plot", artifact.path("plot.png"), "level, threshold, events and highlights"),
        "spans": dg.MetadataValue.table(
            [
                dg.TableRecord({name: round(item[name], 3) for name in ("start_s", "end_s", "score")})
                for item in found["highlights"]
            ],
            schema=dg.TableSchema(columns=[dg.TableColumn(name, "float") for name in ("start_s", "end_s", "score")]),
        ),
    }


def _within_the_video(decision: Decision) -> dg.AssetCheckResult:
    end_s = decision.sound.content.info.duration_s
    outside = [span for span in decision.highlights() if not 0 <= span.start_s < span.end_s <= end_s + 1e-3]
    return dg.AssetCheckResult(
        check_name="within_the_video",
        passed=not outside,
        metadata={"highlights": len(decision.highlights()), "outside": len(outside), "duration_s": end_s},
    )

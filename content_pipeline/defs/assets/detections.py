from collections import Counter
from typing import Any

import dagster as dg

from content_pipeline.defs.asset_errors import asset_errors
from content_pipeline.defs.assets.common import asset_options, materialized, picture, tally
from content_pipeline.defs.checks import check_spec
from content_pipeline.settings import Settings
from content_pipeline.stages.detections import DetectionsResult
from content_pipeline.stages.video import VideoStages


def build(settings: Settings) -> dg.AssetsDefinition:
    @dg.asset(
        check_specs=[check_spec("detections", "within_the_video", "Every highlight lies inside the recording.")],
        **asset_options(settings, "detections", {"python"}),
    )
    def detections(context: dg.AssetExecutionContext, video: dg.ResourceParam[VideoStages]) -> dg.MaterializeResult:
        """The moments worth watching, and for every dropped moment the rule that dropped it.

        Reads the cached curves only: deciding again takes milliseconds.
        """
        with asset_errors("detections", context) as meter:
            made = video.detections()
            metadata, checks = _metadata(made), (_within_the_video(made),)
        return materialized(context, made.result, metadata, meter, checks)

    return detections


def _metadata(made: DetectionsResult) -> dict[str, Any]:
    artifact = made.result.artifact
    document = artifact.read_json("detections.json")
    dropped = Counter(item["dropped_by"] for item in document["candidates"] if item["dropped_by"] is not None)
    return {
        **picture("plot", artifact.path("plot.png"), "level, threshold, events and highlights"),
        "events": artifact.facts["events"],
        "highlights": artifact.facts["highlights"],
        "highlight_s": round(artifact.facts["highlight_s"], 3),
        "candidates": artifact.facts["candidates"],
        **tally("dropped", dropped),
        "spans": dg.MetadataValue.table(
            [
                dg.TableRecord({name: round(item[name], 3) for name in ("start_s", "end_s", "score")})
                for item in document["highlights"]
            ],
            schema=dg.TableSchema(columns=[dg.TableColumn(name, "float") for name in ("start_s", "end_s", "score")]),
        ),
    }


def _within_the_video(made: DetectionsResult) -> dg.AssetCheckResult:
    end_s, highlights = made.content.info.duration_s, made.highlights()
    outside = [span for span in highlights if not 0 <= span.start_s < span.end_s <= end_s + 1e-3]
    return dg.AssetCheckResult(
        check_name="within_the_video",
        passed=not outside,
        metadata={"highlights": len(highlights), "outside": len(outside), "duration_s": end_s},
    )

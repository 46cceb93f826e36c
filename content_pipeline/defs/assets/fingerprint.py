from collections.abc import Sequence
from typing import Any

import dagster as dg

from content_pipeline.dagster_runtime import records
from content_pipeline.defs.asset_errors import asset_errors
from content_pipeline.defs.assets.common import asset_options, materialized
from content_pipeline.errors import printable
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline.settings import Settings
from content_pipeline.stages.context import StageContext
from content_pipeline.stages.fingerprint import FingerprintResult
from content_pipeline.stages.video import VideoStages


def build(settings: Settings) -> dg.AssetsDefinition:
    @dg.asset(**asset_options(settings, "fingerprint", {"python"}))
    def fingerprint(
        context: dg.AssetExecutionContext,
        stage_context: dg.ResourceParam[StageContext],
        video: dg.ResourceParam[VideoStages],
    ) -> dg.MaterializeResult:
        """What the recording holds: a digest of every byte, and what the file says of its picture and sound.

        A file that was only touched, renamed or moved keeps its digest, and nothing is recomputed.
        """
        with asset_errors("fingerprint", context) as meter:
            made = video.fingerprint()
            files = stage_context.videos.with_key(context.partition_key)
            metadata = _metadata(made, files)
            recovery = records.of_files(files, made.content.full, stage_context.settings)
        return materialized(context, made.result, metadata, meter, recovery=recovery)

    return fingerprint


def _metadata(made: FingerprintResult, files: Sequence[KnownVideo]) -> dict[str, Any]:
    facts, content = made.result.artifact.facts, made.content
    info, video = content.info, content.info.video
    return {
        "path": dg.MetadataValue.path(printable(files[0].path)),
        "duration_s": round(info.duration_s, 3),
        "size_bytes": facts["size_bytes"],
        "picture": f"{video.width}x{video.height} {video.codec} {video.frame_rate:.2f} fps" if video else "none",
        "audio_tracks": len(info.audio),
        "container": info.container,
        "copies": len(files),
        "digest": content.full,
    }

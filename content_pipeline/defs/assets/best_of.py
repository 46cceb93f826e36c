import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from content_pipeline.defs.asset_errors import asset_errors
from content_pipeline.defs.assets.common import RENDER_POOL, asset_options, listed, materialized, picture, tally
from content_pipeline.defs.checks import check_montage, montage_checks
from content_pipeline.defs.partitions import LIBRARIES
from content_pipeline.errors import MissingFile, printable
from content_pipeline.job_kinds import PROCESSING
from content_pipeline.library.keys import library_key
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.open import open_in_a_child
from content_pipeline.settings import Settings
from content_pipeline.stages.best_of import BestOfLibrary, Processed
from content_pipeline.stages.best_of import best_of as run
from content_pipeline.stages.context import StageContext, StageResult

COLUMNS = {"video": "string", "path": "string", "source_start_s": "float", "source_end_s": "float", "standing": "float"}


def build(settings: Settings) -> dg.AssetsDefinition:
    options = asset_options(settings, "best_of", {"ffmpeg"}, RENDER_POOL)

    # It reads what is known of every video of its library, whichever those are at the time.
    detections = dg.AssetDep("detections", partition_mapping=dg.AllPartitionMapping())

    @dg.asset(check_specs=_checks(), **{**options, "deps": [detections]})
    def best_of(
        context: dg.AssetExecutionContext, stage_context: dg.ResourceParam[StageContext]
    ) -> dg.MaterializeResult:
        """The highlights of a whole library that stand out most, joined into one video.

        A highlight is compared with what else its own recording offers, so a loud recording does not win
        over a quiet one, and no video gets more than its share of clips. A video whose file or detections
        cannot be read is left out and counted. Decides by what is already known: only the chosen clips are cut.
        """
        with asset_errors("best_of", context) as meter:
            library, jobs = _processed(open_in_a_child(stage_context.settings), context.partition_key)
            result = run(stage_context, BestOfLibrary(context.partition_key, library), jobs)
            checks, metadata = check_montage(result), _metadata(library, result)
        return materialized(context, result, metadata, meter, checks)

    return best_of


def _checks() -> list[dg.AssetCheckSpec]:
    """What is checked of a montage, recorded per library."""
    with warnings.catch_warnings():
        # Partitioned checks are marked as a preview in dagster 1.13; drop this once they are not.
        warnings.simplefilter("ignore", dg.PreviewWarning)
        return [
            dg.AssetCheckSpec(spec.name, asset="best_of", description=spec.description, partitions_def=LIBRARIES)
            for spec in montage_checks()
        ]


def _processed(manifest: Manifest, key: str) -> tuple[Path, Sequence[Processed]]:
    """The library with this key, and its videos that are done."""
    library = next((root for root in manifest.libraries.roots() if library_key(root) == key), None)
    if library is None:
        raise MissingFile(f"no library is known by the key {key}; process its folder first")
    done = JobFilter(kind=PROCESSING, library=str(library), status=State.SUCCEEDED)
    return library, [_as_processed(job) for job in manifest.jobs.list(done)]


def _as_processed(job: Job) -> Processed:
    # Without a key nothing is known of the video: it is left out under the job's own id.
    video_key = job.job_id if job.video_key is None else job.video_key
    return Processed(video_key, Path(job.subject), job.input_hash_full, job.stage_keys)


def _metadata(library: Path, result: StageResult) -> dict[str, Any]:
    facts = result.artifact.facts
    shown: dict[str, Any] = {
        "library": dg.MetadataValue.path(printable(library)),
        "videos": facts["videos"],
        "left_out": facts["left_out"],
        **tally("left_out_by", facts["left_out_by"]),
        "clips": facts["clips"],
        "best_of_s": round(facts["montage_s"], 3),
        **listed("notes", result.notes),
    }
    if not facts["clips"]:
        return {**shown, "result": "nothing to show: no best-of was made"}
    return {
        **picture("contact_sheet", result.artifact.path("sheet.jpg"), "one picture per clip"),
        "output": dg.MetadataValue.path(printable(next(iter(result.outputs)))),
        **shown,
        "clips_reused": facts["clips_reused"],
        "size": f"{facts['width']}x{facts['height']}",
        "cuts": _table(result.artifact.read_json("montage.json")["cuts"]),
    }


def _table(cuts: Sequence[dict[str, Any]]) -> dg.TableMetadataValue:
    return dg.MetadataValue.table(
        [
            dg.TableRecord(
                {name: cut[name] if kind == "string" else round(cut[name], 3) for name, kind in COLUMNS.items()}
            )
            for cut in cuts
        ],
        schema=dg.TableSchema(columns=[dg.TableColumn(name, kind) for name, kind in COLUMNS.items()]),
    )

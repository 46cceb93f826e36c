"""Dagster's events as they are kept in SQLite: compressed, since most of an event is the names of its fields.

A run leaves some fifty events of a kilobyte each, which differ in a few words. With a dictionary of what they share a
run takes a seventh of the room. Postgres needs none of this: it compresses long values by itself.
What was written before, as plain text, is read as it is.
"""

from __future__ import annotations

import zlib
from typing import Any

import sqlalchemy as sa

from content_pipeline.dagster_runtime import private_api as internals

_MARK = b"\x01"
_DICTIONARY = (
    b'"asset_lineage": [], "materialization": {"__class__": "AssetMaterialization", "asset_key": '
    b'{"__class__": "AssetKey", "path": ["fingerprint"]}, "description": null, "metadata_entries": '
    b'[{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": '
    b'"JsonMetadataEntryData", "data": {"label": "recipe"}, {"__class__": "PathMetadataEntryData", "path": '
    b'"{"__class__": "MarkdownMetadataEntryData", "md_str": "![](data:image/webp;base64,"{"__class__": '
    b'"BoolMetadataEntryData", "value": false}, "label": "reused"}, {"__class__": "EventMetadataEntry", '
    b'"description": null, "entry_data": {"__class__": "TextMetadataEntryData", "text": "blake3:sha256:"}, '
    b'"label": "{"__class__": "EventMetadataEntry", "description": null, "entry_data": {"__class__": '
    b'"IntMetadataEntryData", "value": }, "label": "seconds"}, {"__class__": "EventMetadataEntry", '
    b'"description": null, "entry_data": {"__class__": "FloatMetadataEntryData", "value": }], "partition": '
    b'"", "tags": {"dagster/code_version": "", "dagster/data_version": "", '
    b'"dagster/data_version_is_user_provided": "true", "dagster/input_data_version/energy": "", '
    b'"dagster/input_event_pointer/energy": ""}}}, "event_type_value": "ASSET_MATERIALIZATION", "message": '
    b'"Materialized value fingerprint energy detections montage{"__class__": '
    b'"AssetMaterializationPlannedData", "partition": "{"__class__": "AssetCheckEvaluationPlanned", '
    b'"asset_key": {"__class__": "AssetKey", "path": ["montage"]}, "check_name": "plays duration_matches_plan '
    b'cuts_in_order has_sound within_the_video", "partitions_subset": {"__class__": '
    b'"DefaultPartitionsSubset", "subset": {"__set__": [""]}}}, "event_type_value": '
    b'"ASSET_CHECK_EVALUATION_PLANNED", "logging_tags": {}, "message": "process_video intends to materialize '
    b'asset execute asset check on asset [\\"montage\\"]", "pid": null, "pipeline_name": "process_video", '
    b'"solid_handle": null, "step_handle": null, "step_key": "montage", "step_kind_value": null}, '
    b'{"__class__": "AssetCheckEvaluation", "blocking": false, "description": null, "metadata": {}, '
    b'"severity": {"__enum__": "AssetCheckSeverity.ERROR"}, "success": true, "target_materialization_data": '
    b'{"__class__": "AssetCheckEvaluationTargetMaterializationData", "run_id": "", "storage_id": , '
    b'"timestamp": }}, "event_type_value": "ASSET_CHECK_EVALUATION", "message": "Asset check \'\' on \'montage\' '
    b'passed.{"__class__": "StepOutputData", "metadata_entries": [], "step_output_handle": {"__class__": '
    b'"StepOutputHandle", "mapping_key": null, "output_name": "result", "step_key": "type_check_data": '
    b'{"__class__": "TypeCheckData", "description": null, "label": "result", "metadata_entries": [], '
    b'"success": true}, "version": null}, "event_type_value": "STEP_OUTPUT", "message": "Yielded output '
    b'\\"result\\" of type \\"Nothing\\". (Type check passed).", {"__class__": "EngineEventData", "error": null, '
    b'"marker_end": null, "marker_start": null, "metadata_entries": [{"__class__": "StepSuccessData", '
    b'"duration_ms": }, "event_type_value": "STEP_SUCCESS", "message": "Finished execution of step \\"\\" in '
    b'{"__class__": "EventLogEntry", "dagster_event": {"__class__": "DagsterEvent", "event_specific_data": '
    b'null, "event_type_value": "STEP_START", "logging_tags": {"job_name": "process_video", "op_name": '
    b'"montage", "resource_fn_name": "None", "resource_name": "None", "run_id": "", "step_key": "montage"}, '
    b'"message": "Started execution of step \\"montage\\".", "pid": , "pipeline_name": "process_video", '
    b'"solid_handle": {"__class__": "SolidHandle", "name": "montage", "parent": null}, "step_handle": '
    b'{"__class__": "StepHandle", "key": "montage", "solid_handle": {"__class__": "SolidHandle", "name": '
    b'"montage", "parent": null}}, "step_key": "montage", "step_kind_value": "COMPUTE"}, "error_info": null, '
    b'"level": 10, "message": "", "pipeline_name": "process_video", "run_id": "", "step_key": "montage", '
    b'"timestamp": , "user_message": "Started execution of step \\"montage\\"."}'
)

_COMPRESSOR, _DECOMPRESSOR = zlib.compressobj(zdict=_DICTIONARY), zlib.decompressobj(zdict=_DICTIONARY)


def compressed(text: str) -> bytes:
    made = _COMPRESSOR.copy()
    return _MARK + made.compress(text.encode()) + made.flush()


def plain(stored: bytes | str) -> str:
    if isinstance(stored, str):
        return stored
    if stored[:1] != _MARK:
        raise ValueError("an event was written by a newer version of content-ai")
    return _DECOMPRESSOR.copy().decompress(stored[1:]).decode()


class CompressedText(sa.types.TypeDecorator[str]):
    impl = sa.Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: sa.Dialect) -> Any:
        return None if value is None else compressed(value)

    def process_result_value(self, value: Any, dialect: sa.Dialect) -> str | None:
        return None if value is None else plain(value)


def compress_events() -> None:
    """From here on Dagster's own statements write and read compressed events, where they go to SQLite."""
    for column in internals.EVENT_COLUMNS:
        column.type = sa.Text().with_variant(CompressedText(), "sqlite")

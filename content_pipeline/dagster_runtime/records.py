"""What a materialization remembers for the manifest, so that it can be rebuilt: written by assets, read here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dagster as dg

from content_pipeline.dagster_runtime.names import DATA_VERSION_TAG
from content_pipeline.execution.job_kinds.processing import SHOWN_FACTS
from content_pipeline.library.plan import OWN_COPIES
from content_pipeline.library.recipe import Recipe
from content_pipeline.manifest.model import JobResult
from content_pipeline.manifest.publications import Publication
from content_pipeline.manifest.restore import RecordedResult, RecordedVideo
from content_pipeline.manifest.schema import PathText
from content_pipeline.manifest.storage_roots import StorageRoots
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline.settings import Settings
from content_pipeline.stages.context import StageResult
from content_pipeline.stages.montage import PUBLISHED, MontageResult

# Of more copies than this the rest is not remembered, and read again if ever the manifest is lost.
MOST_FILES = 100
# The one entry that holds what only a rebuild reads; records of earlier versions have its content beside the rest.
RECOVERY = "for_recovery"

Record = dg.EventLogRecord


def of_files(files: Sequence[KnownVideo], full: str, settings: Settings) -> dict[str, Any]:
    """Where the content is, the file seen last first; paths in a spelling that keeps every byte, on every host."""
    roots = StorageRoots.of(settings.roots.folders)
    same = [file for file in files if file.full == full][:MOST_FILES]
    return _folded(
        {
            "quick_digest": same[0].quick if same else "",
            "files": [
                {"path": _stored(file.path, roots), "root": _stored(file.root, roots), "signature": file.signature}
                for file in same
            ],
        }
    )


def of_montage(made: MontageResult, recipe: Recipe, settings: Settings) -> dict[str, Any]:
    """With what it was made, from what, and how its outputs were left."""
    roots = StorageRoots.of(settings.roots.folders)
    facts = {name: value for result in made.all_results for name, value in result.artifact.facts.items()}
    return _folded(
        {
            "config_hash": recipe.config_hash,
            "recipe": recipe.as_json(),
            "stage_keys": {result.stage: result.key for result in made.all_results},
            "facts": {name: facts.get(name) for name in SHOWN_FACTS},
            # A list: Dagster sorts the keys of a mapping, and the montage comes first.
            "outputs": [_as_left(made.result, path, roots) for path in made.result.outputs],
            "publications": [_as_published(one, roots) for one in made.result.publications],
            "notes": list(made.result.notes),
        }
    )


def _folded(values: dict[str, Any]) -> dict[str, Any]:
    """One entry, so that people see what is for them."""
    return {RECOVERY: dg.MetadataValue.json(values)}


def _as_published(one: Publication, roots: StorageRoots) -> dict[str, Any]:
    """A row of the manifest, so that a rebuilt one still tells our files from people's, in every output folder."""
    return {
        "path": _stored(one.path, roots),
        "file": one.file,
        "sha256": one.sha256,
        "size": one.size_bytes,
        "mtime_ns": one.mtime_ns,
        "kept": one.kept,
    }


def _stored(path: Path, roots: StorageRoots) -> str:
    """Read back, the name of a root is what the manifest stores, too: it needs no translation."""
    return PathText.stored(roots.to_stored(str(path)))


def _as_left(result: StageResult, path: Path, roots: StorageRoots) -> dict[str, Any]:
    (left,) = (one for one in result.publications if one.path == path)
    return {"path": _stored(path, roots), "sha256": left.sha256, "size": left.size_bytes, "mtime_ns": left.mtime_ns}


@dataclass(frozen=True)
class Finished:
    """What a video's latest montage says."""

    stage_keys: Mapping[str, str]
    config_hash: str
    recipe: dict[str, Any]
    facts: dict[str, Any]
    outputs: Sequence[Mapping[str, Any]]
    at: datetime
    run_id: str
    publications: Sequence[Mapping[str, Any]] = ()
    notes: Sequence[str] = ()
    own_copies: bool = False

    def made(self, file: KnownVideo) -> RecordedResult:
        paths = {PathText.original(left["path"]): left for left in self.outputs}
        result = JobResult(
            video_key=file.key,
            input_hash_quick=file.quick,
            input_hash_full=file.full,
            input_size=int(file.signature.split(":")[2]),
            config_hash=self.config_hash,
            stage_keys=dict(self.stage_keys),
            output_files=list(paths),
            output_hashes={path: left["sha256"] for path, left in paths.items()},
            results={
                "facts": self.facts,
                "output_stats": {path: [left["size"], left["mtime_ns"]] for path, left in paths.items()},
                "notes": list(self.notes),
                OWN_COPIES: self.own_copies,
            },
        )
        return RecordedResult(result, self.at, self.run_id, self._published(file.key))

    def _published(self, key: str) -> list[Publication]:
        return [
            Publication(
                path=Path(PathText.original(one["path"])),
                owner=key,
                file=one["file"],
                sha256=one["sha256"],
                size_bytes=one["size"],
                mtime_ns=one["mtime_ns"],
                kept=one["kept"],
            )
            for one in self.publications
        ]


def read_files(record: Record) -> list[KnownVideo]:
    said = _said(record)
    return [
        KnownVideo(
            path=Path(PathText.original(file["path"])),
            root=Path(PathText.original(file["root"])),
            key=str(record.partition_key),
            signature=file["signature"],
            quick=said["quick_digest"],
            full=said["digest"],
        )
        for file in said["files"]
    ]


def read_montage(record: Record) -> Finished:
    said = _said(record)
    names = ("stage_keys", "config_hash", "recipe", "facts", "outputs")
    return Finished(
        **{name: said[name] for name in names},
        at=moment(record),
        run_id=record.run_id,
        publications=said["publications"] if "publications" in said else _from_outputs(said["outputs"]),
        notes=said.get("notes", ()),
        own_copies="publications" in said,
    )


def _from_outputs(outputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Of a record from before publications were kept: what it published itself."""
    endings = {ending: file for file, ending in PUBLISHED.items()}
    return [
        {**left, "file": file, "kept": False}
        for left in outputs
        for ending, file in endings.items()
        if left["path"].endswith(ending)
    ]


def remembered(fingerprint: Record, montage: Finished | None) -> list[RecordedVideo]:
    """A video's files, and what was made of them if the montage is of what they hold."""
    same = montage is not None and montage.stage_keys.get("fingerprint") == data_version(fingerprint)
    finished = montage if same else None
    return [
        RecordedVideo(file, moment(fingerprint), None if finished is None else finished.made(file))
        for file in read_files(fingerprint)
    ]


def data_version(record: Record) -> str | None:
    made = record.asset_materialization
    return None if made is None or made.tags is None else made.tags.get(DATA_VERSION_TAG)


def moment(record: Record) -> datetime:
    return datetime.fromtimestamp(record.timestamp, UTC)


def _said(record: Record) -> dict[str, Any]:
    """Everything, as if nothing had been folded."""
    made = record.asset_materialization
    said: dict[str, Any] = {} if made is None else {name: entry.value for name, entry in made.metadata.items()}
    return {**said, **said.get(RECOVERY, {})}

"""Putting what was made where people look: whole, once, and only by whoever holds the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from content_pipeline.artifacts import Artifact, hash_file, publication, sha256_of
from content_pipeline.errors import from_own_folder
from content_pipeline.failpoints import reached
from content_pipeline.stages.workbench import Workbench


@dataclass(frozen=True)
class Published:
    """The files and their SHA-256; `fresh` when anything changed."""

    files: Mapping[Path, str]
    fresh: bool


def publish(bench: Workbench, name: str, endings: Mapping[str, str], *made: Artifact) -> Published:
    """Each file named in `endings`, from whichever artifact has it, as `name` with its ending.

    Where nothing was made, what was published before no longer holds, and is taken back.
    """
    folder = bench.settings.output_dir.absolute()
    targets = {file: folder / f"{name}{ending}" for file, ending in endings.items()}
    try:
        if not made[0].facts["clips"]:
            return Published({}, _take_back(bench, targets))
        sources = {file: artifact for artifact in made for file in artifact.hashes}
        stale = [file for file in targets if not _is_same(sources[file], file, targets[file])]
        with publication({sources[file].path(file): targets[file] for file in stale}) as place:
            reached("staged")
            if stale:
                with bench.guard():
                    place()
            reached("published")
        return Published({target: sha256_of(target) for target in targets.values()}, bool(stale))
    except OSError as error:
        raise from_own_folder(error, folder) from error


def _take_back(bench: Workbench, targets: Mapping[str, Path]) -> bool:
    outdated = [target for target in targets.values() if target.exists()]
    if outdated:
        with bench.guard():
            for target in outdated:
                target.unlink(missing_ok=True)
    return bool(outdated)


def _is_same(made: Artifact, file: str, target: Path) -> bool:
    if not target.is_file():
        return False
    return made.path(file).samefile(target) or hash_file(target) == made.hashes[file]

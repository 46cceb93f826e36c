"""A project in a temporary folder: recordings in, outcomes out, through real runs in real children."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg

from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.dagster_runtime.lost_manifest import recover
from content_pipeline.definitions import build_definitions
from content_pipeline.execution.outcome import Outcome
from content_pipeline.library.scan import scan
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services.processing import NoProgress, Processor
from content_pipeline.settings import Settings, load

ALL = ("fingerprint", "energy", "detections", "montage")


class Project:
    def __init__(self, folder: Path) -> None:
        self.library = folder / "library"
        self.library.mkdir(parents=True)
        self.output = folder / "output"
        self._state = folder / "state"

    def settings(self, **changed: Any) -> Settings:
        """`render__crf=20` means `render.crf = 20`."""
        flags = {name.replace("__", "."): value for name, value in changed.items()}
        base = {"state_dir": self._state, "output_dir": self.output, "library.settle_s": 0}
        return load(flags={**base, **flags}, env={}).settings

    def process(self, force: bool = False, **changed: Any) -> dict[str, Outcome]:
        """Outcomes by file name."""
        settings = self.settings(**changed)
        found = scan(self.library, settings.library)
        manifest = open_manifest(settings)
        recover(settings, manifest)
        processor = Processor(settings, manifest, NoProgress(), force)
        jobs = processor.enqueue(found)
        processor.work(build_definitions, jobs)
        return {outcome.path.name: outcome for outcome in processor.outcomes}

    def manifest(self) -> Manifest:
        return open_manifest(self.settings())

    def instance(self) -> dg.DagsterInstance:
        return open_instance(self.settings())


def computed(outcome: Outcome) -> set[str]:
    assert outcome.status == "succeeded", outcome
    assert tuple(outcome.stages) == ALL
    return {stage for stage, how in outcome.stages.items() if how == "computed"}

"""All stages of one video: each is entered once in a run, after the stages that it depends on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from content_pipeline.stage import StageName
from content_pipeline.stages.context import StageContext
from content_pipeline.stages.detections import DetectionsResult, detections
from content_pipeline.stages.energy import EnergyResult, energy
from content_pipeline.stages.fingerprint import FingerprintResult, fingerprint
from content_pipeline.stages.montage import MontageResult, montage

Result = TypeVar("Result")


class VideoStages:
    """The results of a video's stages, made on demand and remembered.

    Any of them can be asked for alone. The stages before it are then found by their keys, if they were finished by
    another process, or made.
    """

    def __init__(self, context: StageContext, video_key: str) -> None:
        self._context = context
        self._video_key = video_key
        self._results: dict[StageName, Any] = {}

    def fingerprint(self) -> FingerprintResult:
        return self._once("fingerprint", lambda: fingerprint(self._context, self._video_key))

    def energy(self) -> EnergyResult:
        return self._once("energy", lambda: energy(self._context, self.fingerprint()))

    def detections(self) -> DetectionsResult:
        return self._once("detections", lambda: detections(self._context, self.energy()))

    def montage(self) -> MontageResult:
        return self._once("montage", lambda: montage(self._context, self.detections()))

    def _once(self, stage: StageName, make: Callable[[], Result]) -> Result:
        """After a failure all stages are entered again: the recording may have changed, or an artifact be damaged."""
        if stage not in self._results:
            try:
                self._results[stage] = make()
            except Exception:
                self._results.clear()
                raise
        result: Result = self._results[stage]
        return result

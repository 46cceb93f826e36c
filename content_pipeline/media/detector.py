"""What a detector is: a pure function from curves to candidates, chosen by preset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from content_pipeline.media.curves import Curves
from content_pipeline.media.spans import Span
from content_pipeline.settings import DetectionSettings

if TYPE_CHECKING:
    from content_pipeline.media.curves import Curve


@dataclass(frozen=True)
class Candidate:
    """A run of the curve above the threshold. It is an event unless a rule dropped it."""

    span: Span
    score: float
    dropped_by: str | None = None


@dataclass(frozen=True, eq=False)
class Detection:
    """`level` and `threshold` are what was compared, per frame and in `unit`: what the plot shows."""

    candidates: tuple[Candidate, ...]
    level: Curve
    threshold: Curve
    unit: str

    @property
    def events(self) -> tuple[Candidate, ...]:
        return tuple(candidate for candidate in self.candidates if candidate.dropped_by is None)


class Detector(Protocol):
    def detect(self, curves: Curves) -> Detection: ...


def detector_for(settings: DetectionSettings) -> Detector:
    """The detector of the chosen preset."""
    from content_pipeline.media.detectors.broadband import BroadbandDetector
    from content_pipeline.media.detectors.classic import ClassicDetector

    presets: dict[str, type[BroadbandDetector] | type[ClassicDetector]] = {
        "broadband": BroadbandDetector,
        "classic": ClassicDetector,
    }
    return presets[settings.preset](settings)

"""What a detector is: a pure function from curves to candidates, chosen by preset.

It works in two steps. Evidence is what the curves say before anything is asked of them; deciding holds it against
the settings. Trying twenty thresholds on a recording takes the evidence once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np

from content_pipeline.media.curves.model import Curves
from content_pipeline.media.spans import Span
from content_pipeline.settings import DetectionSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from content_pipeline.media.curves.model import Curve

    Column = NDArray[np.float64]


@dataclass(frozen=True)
class Candidate:
    """A stretch of the curve above the threshold. It is an event unless a rule dropped it."""

    span: Span
    score: float
    dropped_by: str | None = None


@dataclass(frozen=True, eq=False)
class CandidateTable:
    """All candidates as columns, in order of time: a thousand of them are four arrays, not three thousand objects.

    `rule` is the place in `rules` of the one that dropped the candidate; the one behind the last means an event.
    """

    starts_s: Column
    ends_s: Column
    scores: Column
    rule: NDArray[np.intp]
    rules: tuple[str, ...]

    @property
    def is_event(self) -> NDArray[np.bool_]:
        return np.equal(self.rule, len(self.rules))

    def listed(self) -> tuple[Candidate, ...]:
        names = (*self.rules, None)
        spans = map(Span, self.starts_s.tolist(), self.ends_s.tolist())
        return tuple(map(Candidate, spans, self.scores.tolist(), (names[place] for place in self.rule.tolist())))


@dataclass(frozen=True, eq=False)
class Detection:
    """`level` and `threshold` are what was compared, per frame and in `unit`: what the plot shows."""

    candidate_table: CandidateTable
    level: Curve
    threshold: Curve
    unit: str

    @cached_property
    def candidates(self) -> tuple[Candidate, ...]:
        return self.candidate_table.listed()

    @cached_property
    def events(self) -> tuple[Candidate, ...]:
        return tuple(candidate for candidate in self.candidates if candidate.dropped_by is None)


class Evidence(Protocol):
    """What the curves of a recording say, whatever the thresholds."""

    def decide(self, settings: DetectionSettings) -> Detection:
        """The candidates under these settings: of the preset and adaptive as when the evidence was taken."""
        ...


@dataclass(frozen=True)
class Detector:
    settings: DetectionSettings
    evidence_of: Callable[[Curves, bool], Evidence]

    def evidence(self, curves: Curves) -> Evidence:
        return self.evidence_of(curves, self.settings.adaptive_threshold)

    def detect(self, curves: Curves) -> Detection:
        return self.evidence(curves).decide(self.settings)


def detector_for(settings: DetectionSettings) -> Detector:
    """The detector of the chosen preset."""
    from content_pipeline.media.detection.broadband import BroadbandEvidence
    from content_pipeline.media.detection.classic import ClassicEvidence

    presets: dict[str, Callable[[Curves, bool], Evidence]] = {
        "broadband": BroadbandEvidence.of,
        "classic": ClassicEvidence.of,
    }
    return Detector(settings, presets[settings.preset])


def check_same_kind(settings: DetectionSettings, preset: str, adaptive: bool) -> None:
    """Evidence that was taken for another preset would be decided on silently, and wrongly."""
    if (settings.preset, settings.adaptive_threshold) != (preset, adaptive):
        raise ValueError(
            f"evidence for {preset} (adaptive_threshold={adaptive}) cannot decide for {settings.preset} "
            f"(adaptive_threshold={settings.adaptive_threshold}): take it anew"
        )

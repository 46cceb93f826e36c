"""How well highlights are found: labelled gameplay, against the documented detector and a plain loudness rule.

Ours is tuned on the clips of other recordings than the one it is judged on; the others get the best value there is
for the very clips they are judged on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from bench.measure import NOTE, Row
from bench.recordings import FOOTAGE
from content_pipeline.media.curves.measure import primary_curves
from content_pipeline.media.curves.model import Curves
from content_pipeline.media.detection.detector import Candidate, detector_for
from content_pipeline.media.detection.evaluation import (
    Judgement,
    at_level,
    compare,
    held_out,
    judge,
    merged_spans,
    verdict,
)
from content_pipeline.media.detection.labels import LabelledClip, read_labels
from content_pipeline.media.detection.stretches import stretches_where
from content_pipeline.media.spans import Span
from content_pipeline.settings import DetectionSettings, Settings

LABELS = FOOTAGE / "labelled" / "ground_truth.json"
SENSITIVITIES = (1.5, 2.0, 2.25, 2.5, 2.75, 3.0, 4.0)
CLASSIC_THRESHOLDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
GAINS_DB = (0.0, -6.0, -12.0, -18.0, -24.0)
# Sound is kept where its peak passes a share of full scale, and a little around it; per frame of a video.
LOUDNESS, LOUDNESSES = 0.04, (0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
LOUDNESS_MARGIN_S = 0.2
VIDEO_RATE_HZ = 30

Clips = Mapping[LabelledClip, Curves]


def rows(_folder: Path) -> Iterator[Row]:
    if not LABELS.exists():
        print(f"{NOTE}no labelled footage here: detection quality is not measured", file=sys.stderr)
        return
    clips = {clip: primary_curves(LABELS.parent / clip.file, Settings()) for clip in read_labels(LABELS)}
    ours = _judged(clips, preset="broadband")
    unseen = held_out({value: _judged(clips, preset="broadband", sensitivity=value) for value in SENSITIVITIES})
    classic = max(_classic(clips, value).agreement.f1 for value in CLASSIC_THRESHOLDS)
    loud = _loudness(clips)
    loud_tuned = max(loud(value).agreement.f1 for value in LOUDNESSES)
    yield _more("event F1, as it comes", ours.agreement.f1, 0.85)
    yield _more("event F1, tuned on other recordings", unseen.agreement.f1, 0.85)
    yield _more("event F1 against `classic`, tuned", unseen.agreement.f1, classic, "classic")
    yield _more("event F1 against a loudness rule", ours.agreement.f1, loud(LOUDNESS).agreement.f1, "loudness")
    yield _more("event F1 against a loudness rule, tuned", unseen.agreement.f1, loud_tuned, "loudness")
    yield _more("time F1 against a loudness rule", ours.agreement.time_f1, loud(LOUDNESS).agreement.time_f1, "loudness")
    yield _more("share of a 20 s montage that is a fight", _share(ours), 0.97)
    yield _more("share of a 20 s montage, tuned on other recordings", _share(unseen), 0.97)
    yield _more("share of a 20 s montage against a loudness rule", _share(ours), _share(loud(LOUDNESS)), "loudness")
    yield from _at_other_levels(clips)


def _at_other_levels(clips: Clips) -> Iterator[Row]:
    turned = [
        _judged({clip: at_level(curves, gain_db) for clip, curves in clips.items()}, preset="broadband")
        for gain_db in GAINS_DB
    ]
    yield _more("event F1, the worst of levels from 0 to -24 dB", min(one.agreement.f1 for one in turned), 0.85)
    quiet = [one.agreement.detected for judgement in turned for one in judgement.verdicts if one.clip.is_quiet]
    calm = sum(found <= 1 for found in quiet) / len(quiet) if quiet else 1.0
    yield _more("quiet clips with at most one false event, all levels", calm, 1.0)
    usual = _found(FOOTAGE / "gameplay" / "base_40s.mp4")
    for name in ("very_quiet", "clipped_loud"):
        found = _found(FOOTAGE / "awkward" / f"{name}.mp4")
        yield _more(f"time common with the usual level, {name}", compare(found, usual).time_f1, 0.75)


def _more(name: str, ours: float, baseline: float, against: str = "limit") -> Row:
    return Row(name, ours, baseline, "", 1.0, against, "more")


def _share(judgement: Judgement) -> float:
    share = judgement.montage_share
    assert share is not None, "there are clips with fights"
    return share


def _judged(clips: Clips, **settings: object) -> Judgement:
    asked = DetectionSettings.model_validate(settings)
    return Judgement(tuple(judge(clip, curves, asked) for clip, curves in clips.items()))


def _classic(clips: Clips, threshold: float) -> Judgement:
    return _judged(clips, preset="classic", adaptive_threshold=False, rms_threshold=threshold)


def _found(path: Path) -> list[Span]:
    events = detector_for(DetectionSettings()).detect(primary_curves(path, Settings())).events
    return merged_spans((event.span for event in events), 2.0)


def _loudness(clips: Clips) -> Callable[[float], Judgement]:
    """Judges the rule that people cut silence with. It ranks nothing; here the energy of a piece does."""
    peaks = {clip: _peaks(LABELS.parent / clip.file) for clip in clips}

    def judged(threshold: float) -> Judgement:
        return Judgement(
            tuple(
                verdict(clip, _kept(peaks[clip], threshold, curves), np.square(curves.rms))
                for clip, curves in clips.items()
            )
        )

    return judged


def _kept(peaks: Sequence[float], threshold: float, curves: Curves) -> list[Candidate]:
    margin = round(LOUDNESS_MARGIN_S * VIDEO_RATE_HZ)
    is_loud = np.asarray(peaks) >= threshold
    is_kept = np.convolve(is_loud, np.ones(2 * margin + 1), "same") > 0
    energy = np.concatenate(([0.0], np.cumsum(np.square(curves.rms, dtype=np.float64))))
    frames = np.linspace(0, len(curves.rms), len(is_loud) + 1).round().astype(int)
    return [
        Candidate(Span(first / VIDEO_RATE_HZ, end / VIDEO_RATE_HZ), float(energy[frames[end]] - energy[frames[first]]))
        for first, end in stretches_where(is_kept).tolist()
    ]


def _peaks(path: Path) -> list[float]:
    """The highest sample in each frame of the video."""
    from content_pipeline.media.audio.mono_blocks import mono_blocks
    from content_pipeline.media.curves.model import SAMPLE_RATE_HZ
    from content_pipeline.media.probe import probe
    from content_pipeline.media.source import open_source

    with open_source(path) as source:
        info = probe(source)
        sound = np.abs(np.concatenate([*mono_blocks(source, info, 0)]))
    per_frame = SAMPLE_RATE_HZ // VIDEO_RATE_HZ
    whole = len(sound) // per_frame * per_frame
    return [float(peak) for peak in sound[:whole].reshape(-1, per_frame).max(axis=1)]

"""How well a detector agrees with labels: events, time, false alarms in quiet clips, and what a montage would show.

    python bench/detection_quality.py LABELS.json [--preset broadband|classic] [--gain-db -24]

The clips lie beside the labels file. Measuring a clip takes a second or two; deciding takes milliseconds.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from content_pipeline.media.curves import Curves
from content_pipeline.media.detector import detector_for
from content_pipeline.media.energy import measure
from content_pipeline.media.evaluation import (
    NOTHING,
    Agreement,
    LabelledClip,
    best_seconds,
    clips_from_json,
    compare,
    fight_share,
)
from content_pipeline.media.probe import probe
from content_pipeline.media.source import open_source
from content_pipeline.settings import DetectionSettings, Settings


@dataclass(frozen=True)
class Result:
    clip: LabelledClip
    agreement: Agreement
    montage_share: float | None
    decided_in_ms: float


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    clips = clips_from_json(json.loads(options.labels.read_text()))
    for preset in options.preset or ("classic", "broadband"):
        settings = Settings(detection=DetectionSettings(preset=preset))
        results = [judge(clip, options.labels.parent / clip.file, settings, options.gain_db) for clip in clips]
        report(preset, results)
    return 0


def judge(clip: LabelledClip, path: Path, settings: Settings, gain_db: float) -> Result:
    curves = _turned(_curves(path, settings), gain_db)
    began = time.perf_counter()
    detection = detector_for(settings.detection).detect(curves)
    decided_in_ms = 1000 * (time.perf_counter() - began)
    montage = best_seconds(detection.events, np.square(curves.broadband))
    agreement = compare((event.span for event in detection.events), clip.fights)
    return Result(clip, agreement, fight_share(montage, clip.fights), decided_in_ms)


def report(preset: str, results: list[Result]) -> None:
    print(f"\n{preset:50} precision  recall  F1    time F1  montage  decided in")
    for result in results:
        _print_row(result.clip.file, result.agreement, result.montage_share, result.decided_in_ms)
    with_fights = [result for result in results if not result.clip.is_quiet]
    shares = [result.montage_share for result in with_fights]
    shown = [share for share in shares if share is not None]
    total = sum((result.agreement for result in results), NOTHING)
    mean_share = sum(shown) / len(shown) if shown else None
    _print_row("total", total, mean_share, sum(result.decided_in_ms for result in results))
    quiet = [result.agreement.detected for result in results if result.clip.is_quiet]
    print(f"false events in quiet clips: {quiet}; empty montages: {len(shares) - len(shown)} of {len(shares)}")


def _print_row(name: str, agreement: Agreement, share: float | None, decided_in_ms: float) -> None:
    montage = "   -" if share is None else f"{share:.2f}"
    print(
        f"{name[:50]:50} {agreement.precision:9.2f} {agreement.recall:7.2f} {agreement.f1:5.2f}"
        f" {agreement.time_f1:9.2f} {montage:>8} {decided_in_ms:8.1f} ms"
    )


def _curves(path: Path, settings: Settings) -> Curves:
    with open_source(path) as source:
        info = probe(source, settings.limits)
        energy = measure(source, info, settings.energy, settings.detection.hpss_margin)
    return energy.tracks[energy.primary]


def _turned(curves: Curves, gain_db: float) -> Curves:
    """The same recording made at another level."""
    gain = np.float32(10 ** (gain_db / 20))
    return replace(
        curves, percussive=curves.percussive * gain, rms=curves.rms * gain, broadband=curves.broadband * gain
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", type=Path)
    parser.add_argument("--preset", action="append", choices=["broadband", "classic"])
    parser.add_argument("--gain-db", type=float, default=0.0)
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

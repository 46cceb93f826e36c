from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from content_pipeline.errors import CorruptMedia
from content_pipeline.media.render.join import Cut, JoinedMontage
from content_pipeline.media.render.verify import verify_montage
from content_pipeline.media.spans import Span
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.unit.media.render.rendering import render


def _longer(montage: JoinedMontage) -> JoinedMontage:
    return replace(montage, duration_s=montage.duration_s + 0.5)


def _cut_elsewhere(montage: JoinedMontage) -> JoinedMontage:
    return replace(montage, cuts=(*montage.cuts, Cut(Span(0, 1), 0.52, 1.0)))


def _without_sound(montage: JoinedMontage) -> JoinedMontage:
    return replace(montage, has_sound=False)


def _shortened(montage: JoinedMontage) -> JoinedMontage:
    data = montage.path.read_bytes()
    montage.path.write_bytes(data[: len(data) // 2])
    return montage


@pytest.mark.parametrize("spoil", [_longer, _cut_elsewhere, _without_sound, _shortened])
def test_a_montage_that_is_not_what_it_says_is_refused(
    spoil: Callable[[JoinedMontage], JoinedMontage], sample_folder: Path, tmp_path: Path
) -> None:
    rendered = render(samples.recording(sample_folder, "plain.mp4"), [Span(1.2, 2.4), Span(4.0, 5.1)], tmp_path)
    with pytest.raises(CorruptMedia):
        verify_montage(spoil(rendered.montage))


def test_a_montage_far_from_the_plan_is_refused(sample_folder: Path, tmp_path: Path) -> None:
    rendered = render(samples.recording(sample_folder, "plain.mp4"), [Span(1.2, 2.4)], tmp_path)
    with pytest.raises(CorruptMedia, match="the plan"):
        verify_montage(rendered.montage, planned_s=9.0)

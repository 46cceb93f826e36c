"""The registry of stages is the only list of them: a copy that somebody forgets means wrong caching."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

import content_pipeline
from content_pipeline.defs.assets import build_assets
from content_pipeline.failpoints import PROCESSING_POINTS, failpoint
from content_pipeline.settings import Settings
from content_pipeline.stage import STAGES, VIDEO_STAGES, StageName, share_of_time

PACKAGE = Path(content_pipeline.__file__).parent
NAMES = [spec.name for spec in STAGES]


def test_the_type_of_a_stage_name_lists_the_registry() -> None:
    assert list(get_args(StageName)) == NAMES


def test_a_stage_comes_after_those_that_it_depends_on() -> None:
    for spec in STAGES:
        assert set(spec.depends_on) <= set(NAMES[: NAMES.index(spec.name)])


def test_every_stage_that_is_no_part_of_another_is_an_asset() -> None:
    assets = [asset.key.to_user_string() for asset in build_assets(Settings())]
    assert assets == [spec.name for spec in STAGES if spec.part_of is None]


def test_progress_goes_from_nothing_to_all() -> None:
    shares = [share_of_time(stage) for stage in VIDEO_STAGES]
    assert shares[0][0] == 0
    for (begins, takes), (next_begins, _) in pairwise(shares):
        assert next_begins == pytest.approx(begins + takes)
    assert sum(shares[-1]) == pytest.approx(1)


def _lists_of_stages(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            named = [item.value for item in node.elts if isinstance(item, ast.Constant) and item.value in NAMES]
            if len(named) >= 3:  # two may be names of settings, `energy` and `calibration`
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}: {named}"


def test_nothing_else_in_the_package_lists_stages() -> None:
    files = [path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "stage.py"]
    assert [found for path in files for found in _lists_of_stages(path)] == []
    assert list(_lists_of_stages(PACKAGE / "stage.py")) != [], "a list is found where there is one"


def test_every_stage_of_a_video_can_be_killed_when_it_is_sealed() -> None:
    sealed = [point for point in PROCESSING_POINTS if point.endswith("_sealed")]
    assert sealed == [f"{spec.name}_sealed" for spec in STAGES if spec.subject == "video"]


def test_a_point_that_is_in_no_list_is_refused() -> None:
    with pytest.raises(AssertionError, match="mistyped"):
        failpoint("mistyped")

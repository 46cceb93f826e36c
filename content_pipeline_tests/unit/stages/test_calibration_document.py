"""The calibration document, and those that earlier versions wrote."""

from __future__ import annotations

from typing import Any

import pytest

from content_pipeline.media.selection.tuning import Target
from content_pipeline.stages.calibration_document import CalibrationDocument, CalibrationResults

ROW = {
    "value": 3.0,
    "moments": 4,
    "clips": 3,
    "seconds": 12.5,
    "limited": 0,
    "came": 1,
    "went": 0,
    "montage_s": 12.5,
    "per_hour": 8.0,
    "is_now": False,
    "is_chosen": True,
}
RESULTS: dict[str, Any] = {
    "setting": "sensitivity",
    "value": 3.0,
    "remarks": ["as told"],
    "table": [ROW],
    "applied": True,
    "inputs": 1,
}
DOCUMENT: dict[str, Any] = {
    "library": "/games",
    "made_at": "2026-01-01T00:00:00+00:00",
    "setting": "sensitivity",
    "value": 3.0,
    "is_met": True,
    "is_in_reach": True,
    "remarks": [],
    "hours": 0.5,
    "table": [ROW],
    "now": {"setting": "sensitivity", "value": 2.5, "calibrated": False},
    "inputs": {
        "videos": [{"video": "game-1234567890", "energy": "abc", "track": 0}],
        "settings": {"detection.preset": "broadband"},
        "versions": {"calibration": 1},
    },
}


@pytest.mark.parametrize("name", ["target", "wish"])
@pytest.mark.parametrize(("model", "written"), [(CalibrationDocument, DOCUMENT), (CalibrationResults, RESULTS)])
def test_a_target_is_read_by_both_of_its_names_and_written_by_the_new_one(
    model: type[CalibrationDocument | CalibrationResults], written: dict[str, Any], name: str
) -> None:
    read = model.model_validate({**written, name: {"kind": "montage_s", "amount": 12.0}})
    assert read.target == Target("montage_s", 12.0)
    assert read.model_dump(mode="json") == {**written, "target": {"kind": "montage_s", "amount": 12.0}}


def test_without_a_target_it_is_null() -> None:
    assert CalibrationDocument.model_validate({**DOCUMENT, "wish": None}).target is None

"""What an asset can be given in the launchpad, and how it is put onto the settings."""

import json
from collections import Counter
from dataclasses import asdict
from typing import Any

import pytest

from content_pipeline.defs.asset_config import config_of
from content_pipeline.errors import BadSettings
from content_pipeline.settings import Settings, load
from content_pipeline.settings.run_overrides import RunOverrides, overridable
from content_pipeline.stage import STAGES, VIDEO_STAGES

ASSETS = [spec.name for spec in STAGES if spec.part_of is None]


def of(**config: Any) -> RunOverrides:
    return RunOverrides.of({"ops": {stage: {"config": values} for stage, values in config.items()}})


@pytest.mark.parametrize("stage", ASSETS)
def test_everything_that_a_stage_depends_on_can_be_set_and_nothing_else(stage: Any) -> None:
    read = Settings().read_by(stage).keys() | {key for key, _ in next(s for s in STAGES if s.name == stage).added}
    assert set(overridable(stage).values()) == read
    assert set(config_of(stage).model_fields) == {"force", *overridable(stage)}
    assert all(one.description for one in config_of(stage).model_fields.values())


def test_no_setting_can_be_given_to_two_assets_of_a_video() -> None:
    offered = Counter(key for stage in VIDEO_STAGES for key in overridable(stage).values())
    assert offered.most_common(1)[0][1] == 1


@pytest.mark.parametrize(
    ("stage", "name", "given", "key", "becomes"),
    [
        ("detections", "order", "score", "output.order", "score"),
        ("energy", "track", "1", "energy.track", 1),
        ("energy", "hpss_margin", [1.0, 3.0], "detection.hpss_margin", (1.0, 3.0)),
        ("montage", "audio_rate_hz", 44100, "render.audio_rate_hz", 44100),
        ("calibration", "montage_s", 60.0, "calibration.montage_s", 60.0),
    ],
)
def test_values_of_every_kind_reach_the_settings(stage: str, name: str, given: Any, key: str, becomes: Any) -> None:
    section, _, field = key.partition(".")
    assert getattr(getattr(of(**{stage: {name: given}}).onto(Settings()), section), field) == becomes


def test_what_is_not_given_stays_as_it_is() -> None:
    settings = load(flags={"render.crf": 20, "output.max_segments": 3}, env={}).settings
    assert of(montage={"crf": None, "force": False}).onto(settings) == settings
    assert of(montage={"fps": 25.0}).onto(settings).render.crf == 20
    assert RunOverrides.of({}) == RunOverrides() and not RunOverrides()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"montage": {"crf": 99}}, "`render.crf` = 99"),
        ({"energy": {"hpss_margin": [1.0]}}, "`detection.hpss_margin`"),
        ({"montage": {"crf": {"env": "CRF"}}}, "`render.crf`"),
    ],
)
def test_a_value_beyond_its_limits_is_refused_by_name(config: dict[str, Any], said: str) -> None:
    with pytest.raises(BadSettings) as raised:
        of(**config).onto(Settings())
    assert said in str(raised.value) and "(run config)" in str(raised.value)


def test_a_force_that_is_neither_true_nor_false_is_refused() -> None:
    with pytest.raises(BadSettings, match="`force` of energy"):
        of(energy={"force": {"env": "FORCE"}})


def test_a_force_has_one_name_in_every_process_and_survives_the_launch_as_json() -> None:
    overrides = of(detections={"force": True, "rms_threshold": 0.2})
    again = RunOverrides.from_json(json.loads(json.dumps(asdict(overrides))))
    assert again == overrides
    assert again.force_id("a run") == overrides.force_id("a run") != overrides.force_id("another run")
    assert of(detections={"rms_threshold": 0.2}).force_id("a run") is None

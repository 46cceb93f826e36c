from pathlib import Path
from typing import Any

import pytest

from content_pipeline.errors import BadSettings
from content_pipeline.settings import Settings, flatten, load
from content_pipeline.settings.root_settings import ANY_ROOT
from content_pipeline.stage import StageName

DOCUMENTED = {
    "detection.rms_threshold": 0.10,
    "detection.min_event_duration_s": 0.1,
    "detection.hpss_margin": [1.0, 5.0],
    "detection.adaptive_threshold": True,
    "detection.sensitivity": 2.5,
    "detection.event_lookback_s": 5.0,
    "processing.context_padding_s": 1.0,
    "processing.merge_gap_s": 2.0,
    "processing.max_segment_duration_s": 10.0,
    "output.max_duration_s": 90.0,
    "output.max_segments": 12,
    "output.order": "chronological",
    "render.codec": "libx264",
    "render.profile": "high",
    "render.pixel_format": "yuv420p",
    "render.crf": 23,
    "render.fps": 30.0,
    "render.audio_rate_hz": 48000,
    "render.audio_bitrate_kbps": 192,
    "render.time_limit_s": 1800.0,
    "render.stall_limit_s": 120.0,
}


def test_defaults_are_the_documented_ones() -> None:
    values = flatten(Settings().model_dump(mode="json"))
    assert {key: values[key] for key in DOCUMENTED} == DOCUMENTED


def test_flags_win_over_environment_over_file_over_defaults(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("[render]\ncrf = 18\npreset = 'slow'\n[output]\nmax_segments = 3\n")
    env = {"CONTENT_AI_RENDER__CRF": "20", "CONTENT_AI_OUTPUT__MAX_SEGMENTS": "4"}
    resolved = load(flags={"render.crf": 21, "output.order": None}, config_file=file, env=env)
    assert resolved.settings.render.crf == 21
    assert resolved.settings.output.max_segments == 4
    assert resolved.settings.render.preset == "slow"
    assert resolved.settings.output.order == "chronological"
    assert resolved.origins["render.crf"] == "flag"
    assert resolved.origins["output.max_segments"] == "environment"
    assert resolved.origins["render.preset"] == f"file {file}"
    assert resolved.origins["output.order"] == "default"


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        ({"render.crff": 1}, "render.crff"),
        ({"render.crf": 52}, "render.crf"),
        ({"render.fps": 0}, "render.fps"),
        ({"output.order": "random"}, "output.order"),
        ({"detection.hpss_margin": "1"}, "detection.hpss_margin"),
        ({"detection.rms_threshold": float("nan")}, "detection.rms_threshold"),
        ({"energy.track": -1}, "energy.track"),
        ({"library.extensions": ""}, "library.extensions"),
        ({"workers": 0}, "workers"),
    ],
)
def test_a_bad_setting_is_refused_by_name(flags: Any, named: str) -> None:
    with pytest.raises(BadSettings, match=named.replace(".", r"\.")):
        load(flags=flags, env={})


def test_an_unknown_section_in_the_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("[rendering]\ncrf = 18\n")
    with pytest.raises(BadSettings, match=r"rendering\.crf.*did you mean `render.crf`"):
        load(config_file=file, env={})


@pytest.mark.parametrize("text", ["crf = = 1", "\xff"])
def test_a_broken_file_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "s.toml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(BadSettings, match=r"s\.toml"):
        load(config_file=file, env={})


@pytest.mark.parametrize("layer", ["flag", "environment", "file"])
@pytest.mark.parametrize(
    ("key", "given", "meant"),
    [
        ("state_dir", "~/state", "{home}/state"),
        ("output_dir", "~", "{home}"),
        ("output_dir", "montages/~", "montages/~"),
        ("output_dir", "~no-such-user-here/x", "~no-such-user-here/x"),
        ("library.folders", "~/games,/srv/games", "{home}/games /srv/games"),
        ("db", "~/queue.db", "{home}/queue.db"),
        ("db", "sqlite:///~/queue.db", "sqlite:///{home}/queue.db"),
    ],
)
def test_a_tilde_is_the_home_folder_wherever_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: str, key: str, given: str, meant: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    section, _, name = key.rpartition(".")
    file = tmp_path / "named.toml"
    file.write_text((f"[{section}]\n" if section else "") + f"{name} = {given!r}\n" if layer == "file" else "")
    variables = {f"CONTENT_AI_{key.upper().replace('.', '__')}": given} if layer == "environment" else {}
    flags = {key: given} if layer == "flag" else {}
    value = load(flags, env={"CONTENT_AI_CONFIG": "~/named.toml", **variables}).settings
    for part in key.split("."):
        value = getattr(value, part)
    found = " ".join(map(str, value)) if isinstance(value, tuple) else str(value)
    assert found == meant.format(home=tmp_path)


def test_a_missing_named_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="No such file"):
        load(env={"CONTENT_AI_CONFIG": str(tmp_path / "none.toml")})


READERS = {
    "detection.rms_threshold": {"detections"},
    "detection.hpss_margin": {"energy"},
    "energy.track": {"energy"},
    "processing.context_padding_s": {"detections"},
    "output.order": {"detections"},
    "render.crf": {"clip", "montage"},
    "render.time_limit_s": set(),
    "workers": set(),
    "output_dir": set(),
    "limits.max_streams": set(),
    "library.recursive": set(),
}
OTHER = {
    "detection.rms_threshold": 0.2,
    "detection.hpss_margin": "1,4",
    "energy.track": "0",
    "processing.context_padding_s": 2,
    "output.order": "score",
    "render.crf": 20,
    "render.time_limit_s": 5,
    "workers": 7,
    "output_dir": "elsewhere",
    "limits.max_streams": 3,
    "library.recursive": True,
}


@pytest.mark.parametrize("key", READERS)
def test_a_setting_changes_the_digest_of_exactly_the_stages_that_read_it(key: str) -> None:
    before, after = load(env={}).settings, load(flags={key: OTHER[key]}, env={}).settings
    stages: tuple[StageName, ...] = ("fingerprint", "energy", "detections", "clip", "montage")
    assert {stage for stage in stages if before.digest(stage) != after.digest(stage)} == READERS[key]


def test_every_setting_says_what_it_does() -> None:
    from content_pipeline.services.configuration import describe_settings

    described = describe_settings()
    assert set(described) == {*flatten(Settings().model_dump()), ANY_ROOT}
    assert all(described.values())


def test_only_one_thing_can_be_wished_for_of_a_calibration() -> None:
    with pytest.raises(BadSettings, match="only one target can be set"):
        load(flags={"calibration.montage_s": 60, "calibration.per_hour": 5}, env={})


def test_a_wish_of_an_earlier_layer_can_be_taken_back() -> None:
    env = {"CONTENT_AI_CALIBRATION__MONTAGE_S": "60"}
    assert load(env=env).settings.calibration.montage_s == 60
    changed = load(flags={"calibration.montage_s": "none", "calibration.per_hour": "5"}, env=env).settings.calibration
    assert (changed.montage_s, changed.per_hour) == (None, 5)


@pytest.mark.parametrize("key", ["detection.sensitivity", "detection.rms_threshold"])
def test_a_threshold_turns_calibrations_off_when_it_is_given_as_a_flag_and_only_then(key: str) -> None:
    given = load(flags={key: 1.5}, env={})
    assert (given.settings.calibration.use, given.origins["calibration.use"]) == (False, "flag")
    in_the_environment = load(env={f"CONTENT_AI_{key.upper().replace('.', '__')}": "1.5"})
    assert in_the_environment.settings.calibration.use
    assert load(flags={key: 1.5, "calibration.use": True}, env={}).settings.calibration.use


def test_a_setting_that_was_added_later_changes_no_key_at_its_default() -> None:
    assert "energy.engine" not in Settings().read_by("energy")
    other = load(flags={"energy.engine": "librosa"}, env={}).settings
    assert other.read_by("energy")["energy.engine"] == "librosa"
    assert other.digest("energy") != Settings().digest("energy")

"""What a command asks of a job, as it is kept and as it is put back onto other settings."""

import json
from typing import Any

import pytest

from content_pipeline.errors import BadSettings
from content_pipeline.settings import load
from content_pipeline.settings.job_options import JobOptions, settings_for


def _settings(**flags: object) -> Any:
    return load(flags={name.replace("__", "."): value for name, value in flags.items()}, env={}).settings


def test_only_what_differs_is_kept_and_nothing_of_the_process_that_works() -> None:
    asked = _settings(
        output_dir="foo",
        output__max_segments=1,
        db="postgresql://me:secret@host/db",
        state_dir="/elsewhere",
        workers=7,
        queue__lease_s=5,
        library__recursive=True,
    )
    options = JobOptions.of(asked)
    assert options.settings == {"output.max_segments": 1}
    assert options.output_dir == str(asked.output_dir.absolute())
    assert "secret" not in json.dumps(options.as_json())


def test_put_onto_the_settings_of_another_process_it_makes_the_same() -> None:
    asked = _settings(
        output_dir="/foo", detection__rms_threshold=0.2, detection__hpss_margin="1,3", limits__max_streams=3
    )
    others = _settings(state_dir="/other", workers=3, output__max_segments=5, calibration__montage_s=60)
    kept = JobOptions.from_json(json.loads(json.dumps(JobOptions.of(asked).as_json())))
    got = kept.onto(others)
    for section in ("energy", "detection", "processing", "output", "render", "limits"):
        assert getattr(got, section) == getattr(asked, section)
    assert (got.output_dir, got.state_dir, got.workers) == (asked.output_dir, others.state_dir, 3)
    assert (got.calibration.use, got.calibration.montage_s) == (False, 60)
    assert JobOptions.of(got) == kept


def test_a_job_without_options_follows_the_settings() -> None:
    settings = _settings(output__max_segments=5)
    assert settings_for(None, settings) is settings


@pytest.mark.parametrize(
    "junk",
    [
        [],
        "x",
        {},
        {"output_dir": "/o"},
        {"output_dir": "/o", "settings": 3},
        {"output_dir": "/o", "settings": {"output.max_segments": -1}},
        {"output_dir": "/o", "settings": {"output.gone": 1}},
        {"output_dir": "/o", "settings": {"gone.at_all": 1}},
    ],
    ids=repr,
)
def test_options_that_nobody_understands_are_refused_by_name(junk: object) -> None:
    with pytest.raises(BadSettings, match="options of this job cannot be understood"):
        settings_for(junk, _settings())


def test_changes_are_told_with_what_was_and_what_is() -> None:
    before = JobOptions.of(_settings(output_dir="/a", output__max_segments=1))
    now = JobOptions.of(_settings(output_dir="/b", render__crf=20))
    assert now.changes_from(before) == ["output.max_segments 1 -> 12", "render.crf 23 -> 20", "output folder /a -> /b"]
    assert now.changes_from(now) == []

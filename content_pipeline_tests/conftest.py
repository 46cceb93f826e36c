from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from content_pipeline_tests.helpers.footage import FOOTAGE
from content_pipeline_tests.helpers.processing import Project


@pytest.fixture(autouse=True)
def _no_unexpected_errors(request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A test fails on an ERROR that was logged here; one that provokes it says so: `@pytest.mark.expected_errors`."""
    yield
    if request.node.get_closest_marker("expected_errors") is not None:
        return
    records = [*caplog.get_records("setup"), *caplog.get_records("call")]
    errors = [record for record in records if record.levelno >= logging.ERROR]
    assert not errors, "logged: " + "\n".join(f"{record.name}: {record.getMessage()}" for record in errors)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture(scope="session")
def samples_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Recordings made once for the whole session."""
    return tmp_path_factory.mktemp("samples")


@pytest.fixture(scope="session")
def footage() -> Path:
    if not FOOTAGE.is_dir():
        pytest.skip("the real footage is not beside this checkout")
    return FOOTAGE

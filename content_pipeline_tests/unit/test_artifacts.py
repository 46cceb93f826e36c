import multiprocessing
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from content_pipeline.artifacts import DRAFT_PREFIX, ArtifactStore, Maker
from content_pipeline.errors import DiskFull
from content_pipeline.system.atomic_write import write_atomically

KEY = "ab" + "0" * 62


def make(store: ArtifactStore, text: str = "hello", key: str = KEY) -> Any:
    with store.draft("energy", key) as draft:
        draft.write_bytes("a.txt", text.encode())
        draft.facts = {"n": 1}
    return store.find("energy", key)


def test_an_artifact_is_found_by_its_key(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    assert store.find("energy", KEY) is None
    made = make(store)
    assert made is not None
    assert made.facts == {"n": 1}
    assert made.path("a.txt").read_text() == "hello"


def test_equal_content_gives_an_equal_digest_whatever_the_key(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    other = "cd" + "0" * 62
    assert make(store).digest == make(store, key=other).digest
    assert make(store, "else", key=other).digest != make(store).digest


@pytest.mark.parametrize("damage", ["flip", "shorten", "remove", "index", "index_garbage"])
def test_a_damaged_artifact_is_not_found_and_can_be_made_again(tmp_path: Path, damage: str) -> None:
    store = ArtifactStore(tmp_path)
    file = make(store).path("a.txt")
    match damage:
        case "flip":
            file.write_text("hellp")
        case "shorten":
            file.write_text("hell")
        case "remove":
            file.unlink()
        case "index":
            (file.parent / "artifact.json").unlink()
        case "index_garbage":
            (file.parent / "artifact.json").write_text("[1]")
    assert store.find("energy", KEY) is None
    assert make(store).path("a.txt").read_text() == "hello"
    assert list((tmp_path / ".drafts").iterdir()) == []


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    with pytest.raises(ZeroDivisionError), store.draft("energy", KEY) as draft:
        draft.write_bytes("a.txt", b"x")
        raise ZeroDivisionError
    assert store.find("energy", KEY) is None
    assert list((tmp_path / ".drafts").iterdir()) == []


def test_a_full_disk_is_named() -> None:
    with pytest.raises(DiskFull), ArtifactStore(Path("/dev/shm") / f"t{os.getpid()}").draft("energy", KEY) as draft:
        try:
            with open("/dev/full", "wb", buffering=0) as full:
                full.write(b"x")
        finally:
            draft.path("x").write_text("")


def _die_while_drafting(root: Path, ready: Any) -> None:
    with ArtifactStore(root).draft("energy", KEY) as draft:
        draft.write_bytes("a.txt", b"half")
        ready.set()
        signal.pause()


def test_the_draft_of_a_killed_process_is_swept_and_a_living_one_is_kept(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    child = context.Process(target=_die_while_drafting, args=(tmp_path, ready))
    child.start()
    assert ready.wait(20)
    store = ArtifactStore(tmp_path)
    assert store.sweep() == 0
    os.kill(child.pid, signal.SIGKILL)
    child.join(20)
    assert store.sweep() == 1
    assert list((tmp_path / ".drafts").iterdir()) == []
    assert store.find("energy", KEY) is None


def _make_slowly(root: Path, log: Path) -> None:
    store = ArtifactStore(root)
    with store.only_one("energy", KEY):
        if store.find("energy", KEY) is None:
            with log.open("a") as file:
                file.write("made\n")
            make(store)


def test_of_several_who_want_the_same_artifact_one_makes_it(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_make_slowly, args=(tmp_path / "a", tmp_path / "log")) for _ in range(6)]
    for child in children:
        child.start()
    for child in children:
        child.join(30)
    assert (tmp_path / "log").read_text() == "made\n"


def test_a_file_is_written_whole(tmp_path: Path) -> None:
    write_atomically(tmp_path / "x" / "y", b"data")
    assert (tmp_path / "x" / "y").read_bytes() == b"data"
    assert os.listdir(tmp_path / "x") == ["y"]


def _hold(root: Path, name: str, ready: Any) -> None:
    with ArtifactStore(root, maker=Maker(name)).only_one("energy", KEY):
        ready.set()
        signal.pause()


@pytest.mark.parametrize(("is_current", "waits"), [(True, True), (False, False)])
def test_nobody_waits_for_a_stopped_process_that_has_lost_its_job(
    tmp_path: Path, is_current: bool, waits: bool
) -> None:
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    holder = context.Process(target=_hold, args=(tmp_path, "job:1", ready))
    holder.start()
    assert ready.wait(20)
    os.kill(holder.pid, signal.SIGSTOP)
    asked: list[str] = []
    maker = Maker("job:2", lambda name: asked.append(name) or is_current)
    started_s = time.monotonic()
    with ArtifactStore(tmp_path, patience_s=3.0, maker=maker).only_one("energy", KEY):
        waited_s = time.monotonic() - started_s
    holder.kill()
    holder.join(20)
    assert set(asked) == {"job:1"}
    assert (waited_s >= 3.0) is waits
    with ArtifactStore(tmp_path, maker=maker).only_one("energy", KEY):
        assert next((tmp_path / ".locks").iterdir()).read_text() == "job:2"


def _die_while_collecting(root: Path) -> None:
    shutil.rmtree = lambda *_args, **_more: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    ArtifactStore(root).collect(in_use=(), used_before=time.time() + 60)


def test_what_a_killed_collection_set_aside_is_swept(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    make(store)
    before = tmp_path / ".drafts" / "tmpabcdef" / "old"  # as the version before left it
    before.mkdir(parents=True)
    (before / "artifact.json").touch()
    child = multiprocessing.get_context("fork").Process(target=_die_while_collecting, args=(tmp_path,))
    child.start()
    child.join(20)
    assert child.exitcode == -signal.SIGKILL
    assert store.find("energy", KEY) is None
    assert store.sweep(older_than_s=-1) == 2
    assert sorted(path.name for path in tmp_path.rglob("*") if path.is_file()) == []
    assert [path.name for path in (tmp_path / ".drafts").iterdir()] == []


@pytest.mark.parametrize(
    "name",
    [
        "tmp/film.mp4",
        "tmpabcdefgh/old/film.mp4",
        ".drafts/tmpabcdefgh/letter.txt",
        ".drafts/letter.txt",
        ".locks/bicycle",
        ".locks/keys/front-door",
        "build/x86/release/artifact.json",
        "build/ab/abcdef/artifact.json",
    ],
)
def test_what_a_person_keeps_in_a_folder_called_artifacts_stays(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    store = ArtifactStore(tmp_path)
    make(store)
    store.sweep(older_than_s=-1)
    assert store.collect(in_use=(), used_before=time.time() + 60) == 1
    assert path.read_text() == "mine"


def test_a_draft_that_is_being_born_stays_though_the_clock_of_this_host_is_ahead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + 600)
    born = tmp_path / ".drafts" / f"{DRAFT_PREFIX}abc"  # it has no lock yet
    born.mkdir(parents=True)
    assert ArtifactStore(tmp_path).sweep() == 0 and born.exists()
    os.utime(born, (now_s - 61, now_s - 61))
    assert ArtifactStore(tmp_path).sweep() == 1 and not born.exists()

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from content_pipeline.artifacts import ArtifactStore, write_whole
from content_pipeline.errors import DiskFull

KEY = "ab" + "0" * 62


def make(store: ArtifactStore, text: str = "hello", key: str = KEY):
    with store.draft("energy", key) as draft:
        draft.write_bytes("a.txt", text.encode())
        draft.facts = {"n": 1}
    return store.find("energy", key)


def test_an_artifact_is_found_by_its_key(tmp_path: Path):
    store = ArtifactStore(tmp_path)
    assert store.find("energy", KEY) is None
    made = make(store)
    assert made is not None
    assert made.facts == {"n": 1}
    assert made.path("a.txt").read_text() == "hello"


def test_equal_content_gives_an_equal_digest_whatever_the_key(tmp_path: Path):
    store = ArtifactStore(tmp_path)
    other = "cd" + "0" * 62
    assert make(store).digest == make(store, key=other).digest
    assert make(store, "else", key=other).digest != make(store).digest


@pytest.mark.parametrize("damage", ["flip", "shorten", "remove", "index", "index_garbage"])
def test_a_damaged_artifact_is_not_found_and_can_be_made_again(tmp_path: Path, damage):
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


def test_an_error_leaves_nothing_behind(tmp_path: Path):
    store = ArtifactStore(tmp_path)
    with pytest.raises(ZeroDivisionError), store.draft("energy", KEY) as draft:
        draft.write_bytes("a.txt", b"x")
        raise ZeroDivisionError
    assert store.find("energy", KEY) is None
    assert list((tmp_path / ".drafts").iterdir()) == []


def test_a_full_disk_is_named():
    with pytest.raises(DiskFull), ArtifactStore(Path("/dev/shm") / f"t{os.getpid()}").draft("energy", KEY) as draft:
        try:
            with open("/dev/full", "wb", buffering=0) as full:
                full.write(b"x")
        finally:
            draft.path("x").write_text("")


def _die_while_drafting(root: Path, ready) -> None:
    with ArtifactStore(root).draft("energy", KEY) as draft:
        draft.write_bytes("a.txt", b"half")
        ready.set()
        signal.pause()


def test_the_draft_of_a_killed_process_is_swept_and_a_living_one_is_kept(tmp_path: Path):
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


def test_of_several_who_want_the_same_artifact_one_makes_it(tmp_path: Path):
    context = multiprocessing.get_context("fork")
    children = [context.Process(target=_make_slowly, args=(tmp_path / "a", tmp_path / "log")) for _ in range(6)]
    for child in children:
        child.start()
    for child in children:
        child.join(30)
    assert (tmp_path / "log").read_text() == "made\n"


def test_a_file_is_written_whole(tmp_path: Path):
    write_whole(tmp_path / "x" / "y", b"data")
    assert (tmp_path / "x" / "y").read_bytes() == b"data"
    assert os.listdir(tmp_path / "x") == ["y"]

import hashlib
import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from content_pipeline.errors import FileInUse, MissingFile, UnsafePath
from content_pipeline.media.fingerprint import fingerprint, full_digest, matches, quick_digest
from content_pipeline.media.source import Signature, open_source

MIB = 1 << 20


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "video.mp4"
    path.write_bytes(os.urandom(40 * MIB))
    return path


def read(path: Path) -> Any:
    with open_source(path) as source:
        return fingerprint(source)


def test_an_edit_between_the_samples_is_seen_by_the_full_digest_only(file: Path) -> None:
    before = read(file)
    with file.open("r+b") as handle:
        handle.seek(14 * MIB)
        handle.write(os.urandom(3 * MIB))
    after = read(file)
    assert after.quick == before.quick
    assert after.full != before.full


def test_the_last_sample_ends_at_the_end_of_the_file(file: Path) -> None:
    before = read(file)
    with file.open("r+b") as handle:
        handle.seek(-1, os.SEEK_END)
        last = handle.read(1)
        handle.seek(-1, os.SEEK_END)
        handle.write(bytes([last[0] ^ 1]))
    assert read(file).quick != before.quick


@pytest.mark.parametrize("size", [0, 1, MIB, MIB + 1, 5 * MIB])
def test_files_of_any_size_have_a_quick_digest_of_size_and_samples(tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    path = tmp_path / "x"
    path.write_bytes(data)
    hasher = hashlib.sha256(str(size).encode())
    for position in (0, 0.25, 0.5, 0.75, 1.0):
        start = min(int(size * position), max(0, size - MIB))
        hasher.update(data[start : start + MIB])
    with open_source(path) as source:
        assert quick_digest(source) == f"sha256:{hasher.hexdigest()}"


def test_older_digests_stay_understood(file: Path) -> None:
    older = "blake2b:" + hashlib.blake2b(file.read_bytes()).hexdigest()
    with open_source(file) as source:
        assert matches(source, older)
        assert matches(source, full_digest(source))
        assert not matches(source, older[:-1] + ("0" if older[-1] != "0" else "1"))


def test_a_file_that_changes_while_it_is_read_is_not_vouched_for(file: Path) -> None:
    with open_source(file) as source:
        os.utime(file, ns=(1, 1))
        with pytest.raises(FileInUse, match=r"video\.mp4"):
            fingerprint(source)


def test_a_touch_changes_the_signature_and_not_the_fingerprint(file: Path) -> None:
    before, signature = read(file), Signature.of(file.stat())
    os.utime(file)
    assert Signature.of(file.stat()) != signature
    assert read(file) == before


def test_only_regular_files_of_the_library_are_opened(tmp_path: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    outside = tmp_path / "secret"
    outside.write_text("x")
    (library / "link.mp4").symlink_to(outside)
    (library / "folder.mp4").mkdir()
    os.mkfifo(library / "pipe.mp4")
    (library / "real.mp4").write_text("x")
    (library / "inside.mp4").symlink_to(library / "real.mp4")
    for name in ("link.mp4", "folder.mp4", "pipe.mp4"):
        with pytest.raises(UnsafePath), open_source(library / name, library):
            pass
    with pytest.raises(MissingFile), open_source(library / "none.mp4", library):
        pass
    with open_source(library / "inside.mp4", library) as source:
        assert source.signature.size_bytes == 1


@pytest.mark.parametrize("size", [0, 1, 8 * MIB, 8 * MIB + 1, 12 * MIB, 21 * MIB + 7])
def test_reading_ahead_changes_nothing_and_leaves_no_thread(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x"
    path.write_bytes(os.urandom(size))
    threads = threading.active_count()
    seen: list[float] = []
    with open_source(path) as source:
        assert full_digest(source, progress=seen.append, cores=2) == full_digest(source)
    assert threading.active_count() == threads
    assert seen == sorted(seen)
    assert seen[-1:] == ([1.0] if size else [])


def test_a_reader_that_stops_half_way_leaves_no_thread(file: Path) -> None:
    threads = threading.active_count()

    def stop(fraction: float) -> None:
        raise InterruptedError

    with open_source(file) as source, pytest.raises(InterruptedError):
        full_digest(source, progress=stop, cores=2)
    assert threading.active_count() == threads


def test_a_process_forked_after_hashing_can_hash(file: Path) -> None:
    with open_source(file) as source:
        expected = full_digest(source, cores=2)
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # a hash that hangs kills the child, and fails the test
            os._exit(0 if full_digest(source, cores=2) == expected else 1)
        assert os.waitpid(child, 0)[1] == 0

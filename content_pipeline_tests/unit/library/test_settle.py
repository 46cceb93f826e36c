import os
import time
from pathlib import Path

import pytest

from content_pipeline.library.scan import is_settled
from content_pipeline.system.filesystem import is_open_for_writing

SECOND_NS = 1_000_000_000


def test_a_file_that_somebody_writes_is_known(tmp_path: Path) -> None:
    file = tmp_path / "a.mp4"
    with file.open("wb") as writer:
        writer.write(b"x")
        writer.flush()
        assert is_open_for_writing(file)
    assert not is_open_for_writing(file)
    with file.open("rb"):
        assert not is_open_for_writing(file)


def test_a_writer_is_not_kept_from_writing(tmp_path: Path) -> None:
    file = tmp_path / "a.mp4"
    file.write_bytes(b"x")
    assert not is_open_for_writing(file)
    descriptor = os.open(file, os.O_WRONLY | os.O_NONBLOCK)
    os.close(descriptor)


@pytest.mark.parametrize(("age_s", "settled"), [(0.0, False), (1.9, False), (2.0, True), (3600.0, True), (-5.0, True)])
def test_a_file_settles_after_a_quiet_while(tmp_path: Path, age_s: float, settled: bool) -> None:
    file = tmp_path / "a.mp4"
    file.write_bytes(b"x")
    now_ns = time.time_ns()
    assert is_settled(file, now_ns - int(age_s * SECOND_NS), now_ns, 2.0) is settled


def test_an_old_time_does_not_make_a_written_file_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.mp4"
    with file.open("wb"):
        os.utime(file, ns=(1, 1))
        assert not is_settled(file, 1, time.time_ns(), 2.0)

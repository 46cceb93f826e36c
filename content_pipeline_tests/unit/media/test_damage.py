"""What is raised while a recording is read gets the right name: the file's fault, the disk's, or ours."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import pytest

from content_pipeline.errors import CorruptMedia, FileInUse, ReadFailed
from content_pipeline.media.damage import Damaged, damage_named, packets
from content_pipeline.media.source import open_source
from content_pipeline_tests.helpers import mutants, samples


def _raise(error: BaseException) -> Callable[[Any], None]:
    def act(_container: Any) -> None:
        raise error

    return act


EXPECTED: dict[str, tuple[Callable[[Any], object], type[Exception]]] = {
    "invalid data": (_raise(av.error.InvalidDataError(0, "no")), CorruptMedia),
    "an error of a demuxer's own": (_raise(av.error.OSError(errno.EIO, "no")), CorruptMedia),
    "what our parser found": (_raise(Damaged("cut short")), CorruptMedia),
    "an index of PyAV's": (lambda container: container.streams.get(audio=7), CorruptMedia),
    "a number too large for PyAV": (lambda container: container.seek(1 << 70), CorruptMedia),
    "a wrong call": (lambda container: container.seek(1.5), TypeError),
    "an index of ours": (lambda container: [][1], IndexError),
    "a number of ours": (lambda container: int("x"), ValueError),
    "a name that it has": (_raise(FileInUse("changed")), FileInUse),
}


@pytest.mark.parametrize("what", EXPECTED)
def test_an_error_is_named_by_who_raised_it(what: str, samples_folder: Path) -> None:
    act, expected = EXPECTED[what]
    path = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
    with pytest.raises(expected) as raised, open_source(path) as source, source.container() as container:
        act(container)
    assert type(raised.value) is expected
    if expected is CorruptMedia:
        assert "short.mp4" in str(raised.value)


@pytest.mark.skipif(sys.platform != "linux", reason="a file that cannot be read is Linux's")
def test_what_the_disk_cannot_read_is_no_damage() -> None:
    unreadable = os.open("/proc/self/mem", os.O_RDONLY)  # EIO where nothing is mapped, as at its beginning
    try:
        with pytest.raises(ReadFailed), damage_named(Path("game.mp4"), unreadable):
            raise av.error.OSError(errno.EIO, "Input/output error")
    finally:
        os.close(unreadable)


def test_streams_that_appear_on_the_way_end_nothing_early(samples_folder: Path, tmp_path: Path) -> None:
    whole = [path for path in mutants.recordings(samples_folder) if path.name == "plain.flv"]
    stumbled = 0
    for damaged in mutants.make(tmp_path, whole, 40):
        try:
            with av.open(str(damaged)) as container:
                before = sum(1 for packet in container.demux() if packet.size)
        except IndexError:
            stumbled += 1
        except av.error.FFmpegError:
            continue
        else:
            with av.open(str(damaged)) as container:
                assert sum(1 for packet in packets(container) if packet.size) == before
            continue
        with av.open(str(damaged)) as container:
            assert any(packet.size for packet in packets(container))
    if not stumbled:
        pytest.skip("PyAV did not stumble: it looks at memory that is not its own, and found nothing there")

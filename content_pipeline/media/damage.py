"""What goes wrong while a recording is read, under its name.

Damaged bytes make FFmpeg, PyAV and our own parsers raise almost anything. Whatever they raise is the recording's
fault and named `corrupt_media`, unless the disk or the memory is to blame; what our own code raises is a bug, and
stays one. The boundary is around all that is done with an open recording: see `open_source`.
"""

from __future__ import annotations

import errno
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from content_pipeline.errors import CorruptMedia, OutOfMemory, PipelineError, from_os_error, printable

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.stream import Stream

DISK_ERRNOS = {errno.EIO, errno.ESTALE, errno.EREMOTEIO}

_RAISED_BY_DAMAGE = (LookupError, ValueError, ArithmeticError, AssertionError, RuntimeError, EOFError, MemoryError)
"""What PyAV raises beside FFmpeg's own errors when a file is not what it claims. A `TypeError` is our mistake."""
_WANTED_BYTES = 1 << 28


class Damaged(Exception):
    """Bytes that are not what they should be, found by a parser of ours that does not know whose they are."""


@contextmanager
def damage_named(path: Path, descriptor: int) -> Iterator[None]:
    """Give what is raised while `path` is read its name; errors that have one, and bugs, pass."""
    try:
        yield
    except PipelineError:
        raise
    except Exception as error:
        known = _named(error, path, descriptor)
        if known is None:
            raise
        raise known from error


def packets(container: InputContainer, *streams: Stream) -> Iterator[Any]:
    """The packets of these streams, to the end of the file.

    A damaged FLV can grow streams while it is read. PyAV then looks for them among those it knew at the start, after
    the last packet, and raises an IndexError. Until its `demux` counts what it has.
    """
    following = container.demux(*streams)
    while True:
        try:
            packet = next(following)
        except (StopIteration, IndexError):
            return
        yield packet


def seek_back(container: InputContainer, stream: Stream, time_s: float) -> None:
    """Go to the keyframe at or before a time on the container's clock, or to the first.

    AVI and FLV refuse a time before their first packet; MPEG-TS finds its first keyframe only from there.
    """
    import av

    assert stream.time_base is not None
    try:
        container.seek(round(time_s / stream.time_base), stream=stream, backward=True)
    except av.error.FFmpegError:
        container.seek(0 if stream.start_time is None else stream.start_time, stream=stream, backward=True)


@contextmanager
def until_damage() -> Iterator[None]:
    """What cannot be read any further ends the block quietly; what the disk may be to blame for is raised."""
    import av

    try:
        yield
    except av.error.FFmpegError as error:
        if is_from_disk(error):
            raise


def is_from_disk(error: BaseException) -> bool:
    return isinstance(error, OSError) and error.errno in DISK_ERRNOS


def _named(error: Exception, path: Path, descriptor: int) -> PipelineError | None:
    import av

    if isinstance(error, Damaged):
        return CorruptMedia(f"{printable(path)}: {error}")
    if not isinstance(error, av.error.FFmpegError) and not _is_raised_by_pyav(error):
        return None
    if is_from_disk(error) and (unreadable := disk_error(path, descriptor)) is not None:
        return unreadable
    if isinstance(error, MemoryError) and not _has_memory():
        return OutOfMemory(f"{printable(path)}: there is no memory to read it with")
    said = str(error) or type(error).__name__
    return CorruptMedia(f"{printable(path)} cannot be read where it is damaged: {said}")


def _is_raised_by_pyav(error: Exception) -> bool:
    """Whether PyAV itself raised it: its compiled code names its files relative to where it was built."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    raised_by_pyav = trace is not None and trace.tb_frame.f_code.co_filename.startswith("av/")
    return raised_by_pyav and isinstance(error, _RAISED_BY_DAMAGE)


def disk_error(path: Path, descriptor: int) -> PipelineError | None:
    """What the disk says. Demuxers say "I/O error" of their own accord too: only reading it all tells."""
    position = 0
    try:
        while data := os.pread(descriptor, 1 << 22, position):
            position += len(data)
    except OSError as error:
        return from_os_error(error, path)
    return None


def _has_memory() -> bool:
    """Whether memory can still be had: if so, what could not was an absurd amount that the file asked for."""
    try:
        mmap.mmap(-1, _WANTED_BYTES).close()
    except (OSError, MemoryError):
        return False
    return True

"""Opening a recording safely.

A recording is opened once; the same descriptor is checked, hashed and decoded, so that what was
checked is what is read. Containers are limited to those that hold their own data: a playlist that
names other files or hosts is refused before anything it names is touched.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from content_pipeline.errors import (
    CorruptMedia,
    FileInUse,
    HostileContainer,
    LimitExceeded,
    NotAVideo,
    UnsafePath,
    from_os_error,
    printable,
)
from content_pipeline.media.damage import damage_named, disk_error, is_from_disk
from content_pipeline.media.open_beneath import open_beneath, open_file
from content_pipeline.settings import LimitSettings

if TYPE_CHECKING:
    from av.container import InputContainer

CONTAINERS = ("mov", "mp4", "m4a", "3gp", "3g2", "mj2", "matroska", "webm", "avi", "mpegts", "flv")
OPEN_OPTIONS = {"protocol_whitelist": "file", "format_whitelist": ",".join(CONTAINERS)}

MOST_READ_BYTES = 1 << 20
USUAL_LIMITS = LimitSettings()

_PLAYLIST_OPENINGS = (b"#EXTM3U", b"ffconcat", b"<?xml", b"<MPD", b"v=0", b"[playlist]", b"<ASX", b"<smil")


class Signature(NamedTuple):
    """What `stat` says of a file: equal signatures mean there is nothing new to read."""

    device: int
    inode: int
    size_bytes: int
    mtime_ns: int
    ctime_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> Signature:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)

    def __str__(self) -> str:
        return f"{self.device}:{self.inode}:{self.size_bytes}:{self.mtime_ns}:{self.ctime_ns}"

    def matches(self, known: str | None) -> bool:
        """Whether a file is as it was. Of one on shared storage only size and mtime are known, alike on every host."""
        return known in (str(self), f"-:-:{self.size_bytes}:{self.mtime_ns}:-")


@dataclass(frozen=True)
class Source:
    """An open recording."""

    path: Path
    descriptor: int
    signature: Signature
    limits: LimitSettings

    @property
    def url(self) -> str:
        """What FFmpeg opens: the checked descriptor itself where the system can name it.

        The `file:` prefix makes any name a plain file name, whatever it looks like.
        """
        by_descriptor = Path(f"/proc/self/fd/{self.descriptor}")
        return f"file:{by_descriptor if by_descriptor.exists() else self.path.absolute()}"

    @contextmanager
    def container(self, head: bytes = b"") -> Iterator[InputContainer]:
        """The recording opened by PyAV, with both whitelists; with `head`, as if that stood before its bytes.

        What it asks of the machine is limited here, for whoever reads it. One stream more than allowed is let
        through: libavformat passes over the rest without a word, and then it shows.
        """
        import av

        file = Headed(self, head) if head else self.url
        decoding = {"max_pixels": str(self.limits.max_pixels)}
        opening = {**OPEN_OPTIONS, "max_streams": str(self.limits.max_streams + 1)}
        try:
            container = av.open(file, "r", options=decoding, container_options=opening)
        except (av.error.FFmpegError, ValueError) as error:
            raise self._refusal(error) from error
        with container:
            self._check_streams(len(container.streams))
            for stream in container.streams.video:
                if stream.codec_context is not None:
                    stream.codec_context.options = decoding
            yield container

    def _check_streams(self, count: int) -> None:
        if count > self.limits.max_streams:
            raise LimitExceeded(
                f"{printable(self.path)} holds more than {self.limits.max_streams} streams (limits.max_streams)"
            )

    def check_unchanged(self) -> None:
        """Refuse to vouch for work done on a file that changed meanwhile."""
        if Signature.of(os.fstat(self.descriptor)) != self.signature:
            raise FileInUse(f"{printable(self.path)} changed while it was being read")

    def _refusal(self, error: Exception) -> Exception:
        """Name what the container could not be opened for; the whitelist has refused it already."""
        name = printable(self.path)
        try:
            head = os.pread(self.descriptor, 4096, 0)
        except OSError as read_error:
            return from_os_error(read_error, self.path)
        if not head:
            return NotAVideo(f"{name} is empty")
        if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_PLAYLIST_OPENINGS):
            return HostileContainer(f"{name} is a playlist or session description, not a recording")
        if isinstance(error, MemoryError):  # what some demuxers say of one stream too many
            return LimitExceeded(
                f"{name} asks for more than {self.limits.max_streams} streams (limits.max_streams), "
                "or for more memory than a recording needs"
            )
        if is_from_disk(error) and (unreadable := disk_error(self.path, self.descriptor)) is not None:
            return unreadable
        if _looks_like_video(head):
            return CorruptMedia(f"{name} starts like a recording but cannot be opened: its index is missing or damaged")
        return NotAVideo(f"{name} is not a recording in a container this project reads")


class Headed(io.RawIOBase):
    """A recording's bytes with others before them, read from the descriptor that was checked."""

    def __init__(self, source: Source, head: bytes) -> None:
        self._source = source
        self._head = head
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        count = MOST_READ_BYTES if size < 0 else min(size, MOST_READ_BYTES)
        data = self._head[self._position : self._position + count]
        if not data:
            try:
                data = os.pread(self._source.descriptor, count, self._position - len(self._head))
            except OSError as error:
                raise from_os_error(error, self._source.path) from error
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        end = len(self._head) + self._source.signature.size_bytes
        self._position = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: end}[whence])
        return self._position

    def tell(self) -> int:
        return self._position


def _looks_like_video(head: bytes) -> bool:
    return (
        head[4:8] in (b"ftyp", b"moov", b"mdat", b"free", b"wide", b"skip")
        or head.startswith((b"\x1a\x45\xdf\xa3", b"FLV\x01"))
        or (head.startswith(b"RIFF") and head[8:12] == b"AVI ")
        or (len(head) > 376 and head[0] == head[188] == head[376] == 0x47)
    )


@contextmanager
def open_source(path: Path, root: Path | None = None, limits: LimitSettings = USUAL_LIMITS) -> Iterator[Source]:
    """Open a regular file for reading; with `root`, only if it really lies below it."""
    descriptor = open_file(path) if root is None else open_beneath(path, root)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UnsafePath(f"{printable(path)} is not a regular file")
        with damage_named(path, descriptor):
            yield Source(path, descriptor, Signature.of(status), limits)
    finally:
        os.close(descriptor)

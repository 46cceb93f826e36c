"""Health: can this machine do the work, and if not, what is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from content_pipeline.errors import NoManifest, OldSchema, counted
from content_pipeline.services import hosts_health
from content_pipeline.services.document import Document, DocumentList
from content_pipeline.settings import Settings

LOW_SPACE_BYTES = 5 << 30
Judgement = Literal["ok", "warning", "problem"]


class Finding(Document):
    """Only a problem stops the work."""

    name: str
    verdict: Judgement
    detail: str


class HealthDocument(DocumentList[Finding]):
    @property
    def is_well(self) -> bool:
        return all(finding.verdict != "problem" for finding in self.root)


def examine(settings: Settings, recording: Path | None = None) -> HealthDocument:
    """Every check answers; one that breaks is itself a problem found.

    With a `recording`, its curves are also compared with those of librosa.
    """
    findings: list[Finding] = []
    checks: dict[str, Callable[[Settings], tuple[Judgement, str]]] = {
        "python": _python,
        "cores": _cores,
        "ffmpeg": _ffmpeg,
        "decoder": _decoder,
        "state folder": lambda given: _folder(given.state_dir),
        "output folder": lambda given: _folder(given.output_dir),
        "sqlite": _sqlite,
        "manifest": _manifest,
        "database clock": hosts_health.database_clock,
        "database role": hosts_health.database_role,
        "workers": hosts_health.other_workers,
        "storage": hosts_health.storage,
        "dagster": _dagster,
    }
    if settings.launcher.engine == "rq":
        checks["redis"] = _redis
    if recording is not None:
        checks["energy"] = lambda given: _energy(recording, given)
    for name, check in checks.items():
        try:
            verdict, detail = check(settings)
        except Exception as error:  # noqa: BLE001 - whatever breaks is what the doctor was asked to find
            verdict, detail = "problem", f"{type(error).__name__}: {error}"
        findings.append(Finding(name=name, verdict=verdict, detail=detail))
    return HealthDocument(tuple(findings))


def _energy(recording: Path, settings: Settings) -> tuple[Judgement, str]:
    from content_pipeline.media.curves.librosa_engine import TOLERANCE, compare_engines

    compared = compare_engines(recording, settings)
    figures = ", ".join(f"{curve} {difference:.1e}" for curve, difference in compared.differences.items())
    detail = f"largest difference from librosa in {counted(compared.frames, 'frame')}: {figures}"
    return ("ok", detail) if compared.agree else ("problem", f"{detail}; at most {TOLERANCE:g} is allowed")


def _python(_settings: Settings) -> tuple[Judgement, str]:
    return "ok", f"{sys.version.split()[0]} at {sys.executable}"


def _cores(settings: Settings) -> tuple[Judgement, str]:
    return "ok", f"{counted(os.cpu_count() or 1, 'core')}, {counted(settings.worker_count, 'worker')}"


def _ffmpeg(_settings: Settings) -> tuple[Judgement, str]:
    from content_pipeline.media.ffmpeg import ffmpeg_exe

    listed = subprocess.run([ffmpeg_exe(), "-hide_banner", "-encoders"], capture_output=True, text=True, check=True)
    missing = [name for name in ("libx264", "aac") if f" {name} " not in listed.stdout]
    if missing:
        return "problem", f"{ffmpeg_exe()} has no encoder for {', '.join(missing)}"
    return "ok", ffmpeg_exe()


def _decoder(_settings: Settings) -> tuple[Judgement, str]:
    import av

    missing = [name for name in ("h264", "hevc", "aac", "opus") if name not in av.codecs_available]
    return ("problem", f"PyAV has no decoder for {', '.join(missing)}") if missing else ("ok", f"PyAV {av.__version__}")


def _folder(folder: Path) -> tuple[Judgement, str]:
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    if not os.access(existing, os.W_OK):
        return "problem", f"{existing} is not writable"
    free_bytes = shutil.disk_usage(existing).free
    detail = f"{folder.absolute()}, {free_bytes / 1e9:.1f} GB free"
    return ("warning" if free_bytes < LOW_SPACE_BYTES else "ok"), detail


def _sqlite(_settings: Settings) -> tuple[Judgement, str]:
    import sqlite3

    from content_pipeline.dagster_runtime.storage import SQLITE_VERSION

    return "ok", f"{sqlite3.sqlite_version} for the manifest, {SQLITE_VERSION} for Dagster's records"


def _manifest(settings: Settings) -> tuple[Judgement, str]:
    from content_pipeline.manifest.database import Access, open_engine

    try:
        open_engine(settings.manifest_url, Access.READ).dispose()
    except NoManifest:
        return "ok", f"none yet at {settings.manifest_url}; `content-ai process` makes it"
    except OldSchema as error:
        return "warning", f"{error}. {error.hint}"
    return "ok", str(settings.manifest_url)


def _dagster(settings: Settings) -> tuple[Judgement, str]:
    import dagster

    from content_pipeline.dagster_runtime.instance import examine_home
    from content_pipeline.dagster_runtime.lost_manifest import has_dagster_records

    if not has_dagster_records(settings):
        return "ok", f"{dagster.__version__}, no records yet; `content-ai process` makes them"
    return "ok", f"{dagster.__version__}, {examine_home(settings)}"


def _redis(settings: Settings) -> tuple[Judgement, str]:
    from content_pipeline.launchers.rq.announcements import Announcements
    from content_pipeline.launchers.rq.redis_server import RedisServer, require_postgres
    from content_pipeline.launchers.rq.registration import has_registered_workers

    require_postgres(settings)
    server = RedisServer(settings)
    server.expect()
    announcements = Announcements(server)
    waiting = f"{settings.redis_url}, {counted(announcements.count(), 'run')} waiting"
    if has_registered_workers(server, announcements.queues):
        return "ok", waiting
    return "warning", f"{waiting}, and no worker: start `content-ai worker` on a host"

"""The CSV file of a library's report: the whole table, and the memory of since when videos are stale."""

from __future__ import annotations

import csv
from datetime import datetime
from pathlib import Path

from content_pipeline.errors import from_own_folder, printable
from content_pipeline.services.library_report import LibraryReport, Standing
from content_pipeline.settings import Settings
from content_pipeline.system.atomic_write import write_atomically


def report_path(settings: Settings, key: str) -> Path:
    return settings.state_dir.absolute() / "reports" / f"{key}.csv"


def stale_since(path: Path) -> dict[str, datetime]:
    """By job id, from the last report. One that cannot be read is forgotten: it is written anew."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            rows = [row for row in csv.DictReader(file) if row["standing"] == Standing.STALE and row["job_id"]]
        return {row["job_id"]: datetime.fromisoformat(row["stale_since"]) for row in rows}
    except (FileNotFoundError, KeyError, ValueError, TypeError, csv.Error):
        return {}


def write_report(report: LibraryReport, path: Path) -> None:
    table = report.table()
    table = table.assign(path=table["path"].map(printable), why=table["why"].map(printable))
    table = table.assign(cause=table["cause"].map(printable))
    for name in ("in_sync_at", "stale_since"):
        table[name] = table[name].map(lambda at: "" if at != at else at.isoformat())
    try:
        write_atomically(path, table.to_csv(index=False).encode())
    except OSError as error:
        raise from_own_folder(error, path.parent) from error

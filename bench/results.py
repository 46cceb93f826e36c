"""What was measured, when and on what: the file that table, plot and page are made from."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.measure import Row
from content_pipeline.version import __version__

RESULTS = Path(__file__).parent / "results.json"
# Every bench, in the order it is run and told of: its module, and what it is called.
BENCHES = {
    "fingerprint": "Fingerprint",
    "energy": "Energy",
    "render": "Render",
    "end_to_end": "End to end",
    "deciding": "Deciding again",
    "detection": "Detection quality",
    "library": "Libraries",
    "manifest": "Manifest",
    "launcher": "Run launcher",
    "staleness": "What is out of date",
    "records": "Dagster's records in Postgres",
    "hosts": "Several machines",
}


@dataclass(frozen=True)
class Results:
    machine: dict[str, Any]
    made_on: str
    benches: dict[str, list[Row]]

    @classmethod
    def empty(cls) -> Results:
        return cls({}, "", {})

    @classmethod
    def read(cls, path: Path) -> Results:
        told = json.loads(path.read_text())
        benches = {name: [_row(row) for row in rows] for name, rows in told["benches"].items()}
        return cls(told["machine"], told["made_on"], benches)

    def here(self) -> Results:
        return replace(self, machine=_machine(), made_on=f"{datetime.now(UTC):%Y-%m-%d}")

    def having(self, name: str, rows: list[Row]) -> Results:
        return replace(self, benches={**self.benches, name: rows})

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.as_json(), indent=2) + "\n")

    def as_json(self) -> dict[str, Any]:
        rows = {name: [_told(row) for row in rows] for name, rows in self.benches.items()}
        return {"machine": self.machine, "made_on": self.made_on, "benches": rows}

    @property
    def rows(self) -> list[Row]:
        return [row for name in BENCHES for row in self.benches.get(name, ())]


def _told(row: Row) -> dict[str, Any]:
    return {**asdict(row), "ratio": round(row.ratio, 3), "met": row.met}


def _row(told: dict[str, Any]) -> Row:
    return Row(**{name: value for name, value in told.items() if name not in ("ratio", "met")})


def _machine() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gb": round(memory_bytes / 1e9),
        "system": platform.system(),
        "python": platform.python_version(),
        "version": __version__,
    }

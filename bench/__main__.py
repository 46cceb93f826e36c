"""`make bench`: run every bench, print one table, and write `bench.json`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from bench import energy, fingerprint, launcher, manifest
from bench.measure import Row

BENCHES = (fingerprint, energy, manifest, launcher)


def main() -> None:
    with TemporaryDirectory() as folder:
        rows = [row for bench in BENCHES for row in bench.rows(Path(folder))]
    print(f"{'what':45} {'ours':>10} {'baseline':>10} {'ratio':>8} {'target':>8}")
    for row in rows:
        print(_line(row))
    document = [{**asdict(row), "ratio": row.ratio, "met": row.met} for row in rows]
    Path("bench.json").write_text(json.dumps(document, indent=2))


def _line(row: Row) -> str:
    amounts = f"{row.ours:8.2f} {row.unit:2}{row.baseline:8.2f} {row.unit:2}"
    return f"{row.name:45} {amounts} {row.ratio:7.2f}x {row.target:7.2f}x  {'met' if row.met else 'missed'}"


if __name__ == "__main__":
    main()

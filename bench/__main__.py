"""`make bench`: run every bench, print one table, and write the results, the plot and `docs/performance.md`.

    python -m bench [NAME ...]

Each bench runs in a process of its own, so that none weighs on the memory of the next. With names, only those are
run, and their rows replace the former ones. A bench is a module with `rows(folder)`.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.measure import NOTE, Row
from bench.report import printed, write_report
from bench.results import BENCHES, RESULTS, Results

ROW = "row: "
MOST_LINES = 50


def main(names: list[str]) -> int:
    unknown = sorted(set(names) - set(BENCHES))
    if unknown:
        print(f"no such bench: {', '.join(unknown)}; there are {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    results = (Results.read(RESULTS) if names and RESULTS.exists() else Results.empty()).here()
    failed = []
    for name in names or BENCHES:
        started = time.monotonic()
        rows = _run(name)
        if rows is None:
            failed.append(name)
            continue
        results = results.having(name, rows)
        print(f"{name}: {time.monotonic() - started:.0f} s", file=sys.stderr)
    print(printed(results))
    results.write(RESULTS)
    write_report(results)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _run(name: str) -> list[Row] | None:
    """The rows of one bench; None when it failed, and then what it wrote is shown. The other launcher logs a lot."""
    command = [sys.executable, "-m", "bench", "--only", name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    notes = [line for line in done.stderr.splitlines(keepends=True) if done.returncode or line.startswith(NOTE)]
    sys.stderr.writelines(notes[-MOST_LINES:])
    said = [json.loads(line.removeprefix(ROW)) for line in done.stdout.splitlines() if line.startswith(ROW)]
    return None if done.returncode else [Row(**row) for row in said]


def _tell(name: str) -> int:
    with TemporaryDirectory() as folder:
        for row in importlib.import_module(f"bench.{name}").rows(Path(folder)):
            print(ROW + json.dumps(asdict(row)), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(_tell(sys.argv[2]) if sys.argv[1:2] == ["--only"] else main(sys.argv[1:]))

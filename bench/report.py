"""The results as a table in the terminal, as a page of the docs, and as a plot."""

from __future__ import annotations

from pathlib import Path

from bench.chart import chart
from bench.measure import Row
from bench.results import BENCHES, Results

DOCS = Path(__file__).resolve().parents[1] / "docs"
REMARKS = Path(__file__).parent / "remarks.md"
HEAD = ("what", "ours", "baseline", "against", "ratio", "target", "")


def printed(results: Results) -> str:
    """For the terminal: columns in line."""
    lines = [HEAD, *(cells(row) for row in results.rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in (0, 3, 6) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def cells(row: Row) -> tuple[str, ...]:
    return (
        row.name,
        amount(row.ours, row.unit),
        amount(row.baseline, row.unit),
        row.against,
        f"{row.ratio:.3g}x",
        f"{row.target:.3g}x",
        "met" if row.met else "MISSED",
    )


def amount(value: float, unit: str) -> str:
    shown = f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{shown} {unit}".strip()


def write_report(results: Results) -> None:
    (DOCS / "performance.png").write_bytes(chart(results))
    (DOCS / "performance.md").write_text(page(results, REMARKS.read_text()))


def page(results: Results, remarks: str) -> str:
    machine, rows = results.machine, results.rows
    met = sum(row.met for row in rows)
    parts = [
        "# Performance",
        "<!-- Made by `make bench`; edit bench/remarks.md for the text at the end. -->",
        f"Measured on {results.made_on} by `make bench`, version {machine['version']}, on {machine['cores']} cores "
        f"({machine['processor']}), {machine['memory_gb']} GB, Python {machine['python']}. Baselines were measured in "
        "the same run on the same input; a ratio says how much better ours is. Where nothing else does the same, "
        f"the figure is held against a limit. {met} of {len(rows)} targets are met.",
        "![how much better ours is, and what was asked](performance.png)",
    ]
    for name, title in BENCHES.items():
        if name in results.benches:
            parts += [f"## {title}", _table(results.benches[name]), *_notes(results.benches[name])]
    return "\n\n".join([*parts, remarks.strip()]) + "\n"


def _table(rows: list[Row]) -> str:
    lines = [(*HEAD[:-1], "met"), ("---",) * len(HEAD)]
    lines += [(*cells(row)[:-1], "yes" if row.met else "**no**") for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _notes(rows: list[Row]) -> list[str]:
    noted = [f"- {row.name}: {row.note}." for row in rows if row.note]
    return ["\n".join(noted)] if noted else []

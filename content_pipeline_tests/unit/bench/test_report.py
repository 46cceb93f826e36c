"""The figures of the bench: what a ratio means, what is kept, and what is shown of it."""

import sys
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from bench.chart import LINE_PX, NAMES_PX, SCALE_PX, TOP_PX, chart
from bench.measure import Row, cost_of, cost_of_command
from bench.report import DOCS, REMARKS, page, printed
from bench.results import RESULTS, Results
from content_pipeline.media.preview.canvas import GREEN, VERMILION

LESS = Row("energy: CPU", ours=2.0, baseline=50.0, unit="s", target=25, against="librosa")
MORE = Row("event F1", ours=0.9, baseline=0.85, unit="", target=1, better="more")
MISSED = Row("fingerprint: time", ours=4.0, baseline=1.0, unit="s", target=1 / 3, against="reading", note="one try")


@pytest.mark.parametrize(("row", "ratio", "met"), [(LESS, 25.0, True), (MORE, 0.9 / 0.85, True), (MISSED, 0.25, False)])
def test_a_ratio_says_how_much_better_ours_is(row: Row, ratio: float, met: bool) -> None:
    assert row.ratio == pytest.approx(ratio)
    assert row.met is met


def test_results_come_back_as_they_were_written(tmp_path: Path) -> None:
    results = Results.empty().here().having("energy", [LESS]).having("fingerprint", [MISSED])
    results.write(tmp_path / "results.json")
    assert Results.read(tmp_path / "results.json") == results


def test_the_rows_of_a_bench_replace_its_former_ones() -> None:
    results = Results.empty().having("energy", [MISSED]).having("render", [MORE]).having("energy", [LESS])
    assert results.rows == [LESS, MORE]


def test_what_is_missed_is_said_in_the_table_and_on_the_page() -> None:
    results = Results.empty().here().having("energy", [LESS]).having("fingerprint", [MISSED])
    missed = next(line for line in printed(results).splitlines() if MISSED.name in line)
    assert missed.endswith("MISSED")
    text = page(results, "Why it is missed.")
    assert "1 of 2 targets are met" in text
    assert "| fingerprint: time | 4 s | 1 s | reading | 0.25x | 0.333x | **no** |" in text
    assert "- fingerprint: time: one try." in text
    assert text.endswith("Why it is missed.\n")


def test_the_plot_has_a_bar_for_every_row_in_the_colour_of_its_verdict() -> None:
    image = Image.open(BytesIO(chart(Results.empty().having("energy", [LESS, MISSED])))).convert("RGB")
    for number, (colour, other) in enumerate(((GREEN, VERMILION), (VERMILION, GREEN))):
        top = TOP_PX + LINE_PX * number
        line = image.crop((NAMES_PX, top, NAMES_PX + SCALE_PX, top + LINE_PX))
        seen = [line.getpixel((x, y)) for x in range(line.width) for y in range(line.height)]
        assert sum(_is_near(pixel, colour) for pixel in seen) > 100
        assert not any(_is_near(pixel, other) for pixel in seen)


def _is_near(pixel: object, colour: tuple[int, int, int]) -> bool:
    assert isinstance(pixel, tuple)
    return all(abs(one - other) < 12 for one, other in zip(pixel, colour, strict=True))


def test_the_page_of_the_docs_is_made_from_the_results_that_are_kept() -> None:
    made = page(Results.read(RESULTS), REMARKS.read_text())
    assert (DOCS / "performance.md").read_text() == made, "run `make bench`"


def test_the_cost_of_work_is_its_own_and_not_what_was_done_before() -> None:
    def work(size_bytes: int) -> int:
        return len(bytearray(size_bytes)) + sum(range(100_000))

    small, large = (cost_of(partial(work, size_bytes)) for size_bytes in (0, 96 << 20))
    assert large.peak_bytes - small.peak_bytes > 80 << 20
    assert small.value == sum(range(100_000))
    prepared = cost_of(partial(work, 0), prepare=lambda: sum(range(20_000_000)))
    unprepared = cost_of(lambda: sum(range(20_000_000)))
    assert prepared.cpu_s < unprepared.cpu_s / 2


def test_the_cost_of_a_command_counts_all_its_processes(tmp_path: Path) -> None:
    child = "import time; held = b'x' * (80 << 20); time.sleep(1)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}]); print('said')"
    cost = cost_of_command([sys.executable, "-c", parent], tmp_path)
    assert cost.peak_bytes > 80 << 20
    assert cost.value == "said\n"
    assert cost.wall_s >= 1


def test_a_command_that_fails_is_no_measurement(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended with 3"):
        cost_of_command([sys.executable, "-c", "raise SystemExit(3)"], tmp_path)

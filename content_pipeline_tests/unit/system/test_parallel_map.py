"""A function over many items in forked processes."""

import os
import signal

import pytest

from content_pipeline.errors import BadSettings
from content_pipeline.system.child_process import ChildDied
from content_pipeline.system.parallel_map import parallel_map


def test_every_item_gives_its_result_whoever_does_it() -> None:
    done = list(parallel_map(lambda number: [number, os.getpid()], range(20), processes=3))
    assert sorted(number for number, _ in done) == list(range(20))
    assert len({pid for _, pid in done} - {os.getpid()}) == 3


def test_one_process_or_one_item_is_done_here() -> None:
    assert list(parallel_map(lambda _: os.getpid(), range(3), processes=1)) == [os.getpid()] * 3
    assert list(parallel_map(lambda _: os.getpid(), [1], processes=4)) == [os.getpid()]


def test_results_come_in_the_order_of_the_items() -> None:
    assert list(parallel_map(lambda number: number, range(50), processes=3)) == list(range(50))


def test_a_process_that_dies_fails_the_whole() -> None:
    def run(number: int) -> int:
        if number == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with pytest.raises(ChildDied):
        list(parallel_map(run, range(10), processes=2))


@pytest.mark.parametrize("processes", [1, 2])
def test_of_the_errors_that_items_raise_the_first_is_raised_here(processes: int) -> None:
    def run(number: int) -> int:
        if number >= 5:
            raise BadSettings(f"{number} went wrong", hint="try another")
        return number

    results = parallel_map(run, range(10), processes)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(BadSettings, match="5 went wrong") as raised:
        next(results)
    assert raised.value.hint == "try another"


def test_an_error_that_cannot_be_sent_is_raised_by_its_name() -> None:
    class Local(Exception):
        pass

    def run(number: int) -> int:
        raise Local(f"{number} went wrong")

    with pytest.raises(RuntimeError, match="Local: 0 went wrong"):
        list(parallel_map(run, range(4), processes=2))


def test_results_larger_than_a_pipe_arrive_whole() -> None:
    sizes = [len(result) for result in parallel_map(lambda number: bytes(number << 20), range(4), processes=2)]
    assert sizes == [number << 20 for number in range(4)]


def test_whoever_stops_listening_leaves_no_process_behind() -> None:
    results = parallel_map(lambda _: os.getpid(), range(1000), processes=2)
    pid = next(results)
    results.close()  # type: ignore[attr-defined]
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)

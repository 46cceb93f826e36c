"""A function over many items in forked processes."""

import os
import signal

import pytest

from content_pipeline.errors import WorkerCrashed
from content_pipeline.system.parallel_map import parallel_map


def test_every_item_gives_its_result_whoever_does_it() -> None:
    done = list(parallel_map(lambda number: [number, os.getpid()], range(20), processes=3))
    assert sorted(number for number, _ in done) == list(range(20))
    assert len({pid for _, pid in done} - {os.getpid()}) == 3


def test_one_process_or_one_item_is_done_here() -> None:
    assert list(parallel_map(lambda _: os.getpid(), range(3), processes=1)) == [os.getpid()] * 3
    assert list(parallel_map(lambda _: os.getpid(), [1], processes=4)) == [os.getpid()]


@pytest.mark.parametrize("fails", ["raises", "dies"])
def test_a_process_that_does_not_get_through_fails_the_whole(fails: str, capfd: pytest.CaptureFixture[str]) -> None:
    def run(number: int) -> int:
        if number == 5 and fails == "raises":
            raise ValueError("it went wrong")
        if number == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    with pytest.raises(WorkerCrashed):
        list(parallel_map(run, range(10), processes=2))


def test_whoever_stops_listening_leaves_no_process_behind() -> None:
    results = parallel_map(lambda _: os.getpid(), range(1000), processes=2)
    pid = next(results)
    results.close()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)

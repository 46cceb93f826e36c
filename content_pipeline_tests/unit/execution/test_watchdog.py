from typing import Any

import pytest

from content_pipeline.execution.watchdog import BYTES_PER_HOUR, LONGEST_POLL_S, ListeningTime, stall_limit_s
from content_pipeline.settings import QueueSettings

QUEUE = QueueSettings(stall_s=100, stall_per_hour_s=10)


@pytest.mark.parametrize(
    ("duration_s", "size_bytes", "limit_s"),
    [
        (0.0, 0, 100),
        (7200.0, 1, 120),  # by its length
        (0.0, 3 * BYTES_PER_HOUR, 130),  # not known yet: by its size
        (3600.0, 3 * BYTES_PER_HOUR, 130),  # the larger of both
        (0.0, None, 200),  # about no video
    ],
)
def test_patience_grows_with_the_recording(duration_s: Any, size_bytes: int, limit_s: float) -> None:
    assert stall_limit_s(QUEUE, duration_s, size_bytes) == limit_s


def test_time_in_which_nobody_could_listen_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that was paused, a command that was stopped: whatever the clock does, it is one poll."""
    now_s = [100.0]
    monkeypatch.setattr("content_pipeline.execution.watchdog.time.monotonic", lambda: now_s[0])
    listening = ListeningTime(_last_s=100.0)
    now_s[0] += 0.2
    assert listening.passed_s() == pytest.approx(0.2)
    now_s[0] += 7200
    assert listening.passed_s() == LONGEST_POLL_S

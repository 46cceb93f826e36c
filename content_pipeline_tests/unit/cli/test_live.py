"""Progress in lines, where there is no terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from content_pipeline.cli.live import LINE_EVERY_S, LiveProgress, audio_track, describe, details
from content_pipeline.execution.outcome import Outcome
from content_pipeline.services.processing_document import VideoOutcome

A, B = (Outcome(Path(f"/library/{name}.mp4")) for name in "ab")


def test_a_long_video_is_told_of_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 0.0
    live = LiveProgress(clock=lambda: now_s)
    live.expect(2)
    live.started(A)
    for second in range(61):
        now_s = float(second)
        live.progressed(A, "energy", second / 60)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 60 // LINE_EVERY_S
    assert lines[0] == "a.mp4: energy 25%; 0 of 2 videos done"


def test_what_waits_for_another_attempt_has_not_ended(capsys: pytest.CaptureFixture[str]) -> None:
    live = LiveProgress()
    live.expect(2)
    live.ended(Outcome(A.path, status="pending", error="/library/a.mp4: disk slow", note="again in 30 s"))
    live.ended(Outcome(B.path, status="succeeded", facts={"clips": 1, "montage_s": 3.0}))
    live.ended(Outcome(A.path, status="succeeded", facts={"clips": 2, "montage_s": 3.0}))
    assert capsys.readouterr().err.splitlines() == [
        "a.mp4: pending: disk slow; again in 30 s",
        "[1/2] b.mp4: 1 clip, 3.0 s (everything reused, 0.0 s)",
        "[2/2] a.mp4: 2 clips, 3.0 s (everything reused, 0.0 s)",
    ]


def test_a_failure_names_its_code_once_and_its_path_not_at_all() -> None:
    error = "/library/a.mp4 has no audio track"
    failed = VideoOutcome.of(Outcome(A.path, status="failed", error_code="no_audio", error=error))
    assert describe(failed) == "failed (no_audio): has no audio track"
    assert details(failed) == "no_audio: has no audio track"


@pytest.mark.parametrize(
    ("track", "tracks", "told"),
    [(0, 1, ""), (None, None, ""), (1, None, ""), (0, 2, "audio track 1 of 2 (energy.track=0)")],
)
def test_a_track_is_told_where_there_was_a_choice(track: int | None, tracks: int | None, told: str) -> None:
    assert audio_track(track, tracks) == told

"""Whatever videos fail and get through in whatever order: who never met an error waits for none of the videos' own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from content_pipeline.manifest.breaker import FAILURES_TO_OPEN, LONGEST_PAUSE_S, Breaker

START = datetime(2026, 1, 1, tzinfo=UTC)
STAGE, CODE = "montage", "internal_error"
videos = st.integers(0, 7).map(str)
events = st.lists(
    st.one_of(
        st.tuples(st.just("fails"), videos),
        st.tuples(st.just("gets through"), videos),
        st.tuples(st.just("is found done"), videos),
        st.tuples(st.just("passes"), st.sampled_from(["1", "60", "4000"])),
    ),
    max_size=40,
)


@given(events)
def test_only_videos_that_met_an_error_wait_for_it_and_only_after_five_of_them(happened: list[tuple[str, str]]) -> None:
    now, breaker = START, Breaker(f"stage:{STAGE}", CODE)
    last_error: dict[str, str | None] = {}
    failed_since_proof: set[str] = set()
    for what, job_filter in happened:
        if what == "passes":
            now += timedelta(seconds=float(job_filter))
        elif what == "fails":
            breaker = breaker.failed(now, "no", again=last_error.get(job_filter) == CODE)
            last_error[job_filter] = CODE
            failed_since_proof.add(job_filter)
        else:
            last_error[job_filter] = None
            if breaker.is_ended_by(job_filter, "/games", [STAGE] if what == "gets through" else [], now):
                breaker = Breaker(breaker.scope, CODE)
                failed_since_proof.clear()
            assert what == "is found done" or breaker.until is None
        assert not breaker.blocks("/games", None)
        assert not breaker.blocks("/games", "read_failed")
        assert breaker.until is None or len(failed_since_proof) >= FAILURES_TO_OPEN
        assert breaker.until is None or breaker.until <= now + timedelta(seconds=LONGEST_PAUSE_S)

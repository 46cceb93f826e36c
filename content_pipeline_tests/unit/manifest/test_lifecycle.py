from __future__ import annotations

import pytest

from content_pipeline.errors import IllegalMove, RetryPolicy
from content_pipeline.manifest.ids import new_ulid
from content_pipeline.manifest.lifecycle import CLAIMABLE, FINISHED, MOVES, Move, State, after, is_legal
from content_pipeline.manifest.retry_policy import after_crash, after_error, backoff_s


def test_every_move_but_asking_leads_somewhere_else_or_is_refused() -> None:
    for move in Move:
        for state in State:
            if state in MOVES[move]:
                assert (after(move, state) is state) == (move is Move.ASK)
                assert is_legal(state, after(move, state))
            else:
                with pytest.raises(IllegalMove):
                    after(move, state)


def test_every_state_can_be_entered_and_left() -> None:
    entered = {target for targets in MOVES.values() for target in targets.values()}
    left = {state for targets in MOVES.values() for state in targets}
    assert entered == left == set(State)


def test_every_state_waits_runs_or_is_finished() -> None:
    assert {*CLAIMABLE, State.RUNNING, *FINISHED} == set(State)


@pytest.mark.parametrize("attempts", range(1, 40))
def test_a_back_off_doubles_up_to_an_hour_give_or_take_a_tenth(attempts: int) -> None:
    middle = min(3600.0, 30.0 * 2 ** (attempts - 1))
    assert backoff_s(attempts, lambda: 0.5) == middle
    assert backoff_s(attempts, lambda: 0.0) == pytest.approx(middle * 0.9)
    assert backoff_s(attempts, lambda: 1.0) == pytest.approx(middle * 1.1)


@pytest.mark.parametrize(
    ("policy", "attempts", "move", "refund"),
    [
        (RetryPolicy.PERMANENT, 1, Move.FAIL, False),
        (RetryPolicy.TRANSIENT, 1, Move.POSTPONE, False),
        (RetryPolicy.TRANSIENT, 2, Move.POSTPONE, False),
        (RetryPolicy.TRANSIENT, 3, Move.FAIL, False),
        (RetryPolicy.ENVIRONMENTAL, 3, Move.POSTPONE, True),
    ],
)
def test_an_error_is_answered_by_its_policy(policy: RetryPolicy, attempts: int, move: Move, refund: bool) -> None:
    decision = after_error(policy, attempts, 3, lambda: 0.5)
    assert (decision.move, decision.refund) == (move, refund)


def test_the_second_crash_is_one_too_many() -> None:
    assert after_crash(1, 2).move is Move.RESCUE
    assert after_crash(2, 2).move is Move.QUARANTINE


def test_ids_are_unique_and_sort_in_the_order_they_were_made() -> None:
    ids = [new_ulid() for _ in range(20_000)]
    assert ids == sorted(set(ids))
    assert {len(one) for one in ids} == {26}

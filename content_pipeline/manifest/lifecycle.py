"""The states of a job, and every legal move between them. Nowhere else is a move decided."""

from __future__ import annotations

from enum import StrEnum

from content_pipeline.errors import IllegalMove


class State(StrEnum):
    PENDING = "pending"  # a claim takes it, once `available_at` has passed
    RUNNING = "running"  # its worker ends it, or a rescue when the worker is gone
    SUCCEEDED = "succeeded"  # a plan that finds its keys changed or its outputs missing makes it dirty
    DIRTY = "dirty"  # a claim takes it, like a pending one
    FAILED = "failed"  # a person retries it, or a plan after its input changed
    CANCELLED = "cancelled"  # a person resumes it
    DISCARDED = "discarded"  # a person resumes it; a retry passes it over


CLAIMABLE = (State.PENDING, State.DIRTY)
FINISHED = (State.SUCCEEDED, State.FAILED, State.CANCELLED, State.DISCARDED)


class Move(StrEnum):
    CLAIM = "claim"
    SUCCEED = "succeed"
    POSTPONE = "postpone"  # an error that may pass: again after a back-off
    FAIL = "fail"
    RELEASE = "release"  # a worker that stops gives it back, at no cost
    RESCUE = "rescue"  # the worker is gone
    QUARANTINE = "quarantine"  # the worker is gone once too often
    CANCEL = "cancel"
    DISCARD = "discard"
    RESUME = "resume"
    RETRY = "retry"
    MARK_DIRTY = "mark dirty"  # what it made no longer holds
    ASK = "ask"  # somebody wants it, new or waiting: it goes on waiting, with what was asked of it
    RESTORE = "restore"  # it was done before the manifest was lost


MOVES: dict[Move, dict[State, State]] = {
    Move.CLAIM: {State.PENDING: State.RUNNING, State.DIRTY: State.RUNNING},
    Move.SUCCEED: {State.RUNNING: State.SUCCEEDED},
    Move.POSTPONE: {State.RUNNING: State.PENDING},
    Move.FAIL: {State.RUNNING: State.FAILED},
    Move.RELEASE: {State.RUNNING: State.PENDING},
    Move.RESCUE: {State.RUNNING: State.PENDING},
    Move.QUARANTINE: {State.RUNNING: State.FAILED},
    Move.CANCEL: dict.fromkeys((State.PENDING, State.DIRTY, State.RUNNING), State.CANCELLED),
    Move.DISCARD: dict.fromkeys((State.PENDING, State.DIRTY, State.FAILED, State.CANCELLED), State.DISCARDED),
    Move.RESUME: dict.fromkeys((State.CANCELLED, State.DISCARDED), State.PENDING),
    Move.RETRY: {State.FAILED: State.PENDING},
    Move.MARK_DIRTY: {State.SUCCEEDED: State.DIRTY},
    Move.ASK: {State.PENDING: State.PENDING, State.DIRTY: State.DIRTY},
    Move.RESTORE: {State.PENDING: State.SUCCEEDED},
}


def after(move: Move, state: State) -> State:
    """Where a move leads, or why it cannot be made."""
    try:
        return MOVES[move][state]
    except KeyError:
        raise IllegalMove(f"a {state} job cannot be moved by `{move}`") from None


def is_legal(before: State, now: State) -> bool:
    return any(moves.get(before) is now for moves in MOVES.values())

"""What happens to a job whose attempt ended in an error: a pure decision, applied elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from content_pipeline.errors import RetryPolicy
from content_pipeline.manifest.lifecycle import Move

BASE_DELAY_S = 30.0
LONGEST_DELAY_S = 3600.0
PAUSE_S = 30.0
JITTER = 0.1


@dataclass(frozen=True)
class RetryDecision:
    """`refund`: the attempt is not counted, for the job was not to blame."""

    move: Move
    delay_s: float
    refund: bool
    reason: str


def after_error(policy: RetryPolicy, attempts: int, max_attempts: int, random: Callable[[], float]) -> RetryDecision:
    """`attempts` counts the one that just failed; `random` gives numbers in [0, 1)."""
    if policy is RetryPolicy.PERMANENT:
        return RetryDecision(Move.FAIL, 0.0, False, "the error is permanent")
    if policy is RetryPolicy.ENVIRONMENTAL:
        return RetryDecision(
            Move.POSTPONE,
            PAUSE_S,
            True,
            "the environment has a problem (disk, network or database); the attempt is not counted",
        )
    if attempts >= max_attempts:
        return RetryDecision(Move.FAIL, 0.0, False, f"{attempts} of {max_attempts} attempts failed")
    delay_s = backoff_s(attempts, random)
    return RetryDecision(
        Move.POSTPONE, delay_s, False, f"attempt {attempts} of {max_attempts} failed; retried in {delay_s:.0f} s"
    )


def after_crash(crashes: int, max_crashes: int) -> RetryDecision:
    """`crashes` counts the one that just happened. The attempt is refunded: crashes have a budget of their own."""
    if crashes >= max_crashes:
        return RetryDecision(Move.QUARANTINE, 0.0, True, f"its worker died {crashes} times")
    return RetryDecision(
        Move.RESCUE, 0.0, True, f"its worker died ({crashes} of {max_crashes} times before it is marked failed)"
    )


def backoff_s(attempts: int, random: Callable[[], float]) -> float:
    """30 s, doubled with each attempt up to an hour, a tenth more or less so that a crowd does not return at once."""
    delay_s = min(LONGEST_DELAY_S, BASE_DELAY_S * 2.0 ** (min(attempts, 32) - 1))
    return delay_s * (1 + JITTER * (2 * random() - 1))

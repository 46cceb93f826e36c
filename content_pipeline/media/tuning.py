"""Which value of a setting gives what is wanted: a table of what each would pick, and the one nearest to a wish.

Pure: what a value picks of one recording is found by `trial`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from content_pipeline.settings import CalibrationSettings, OutputSettings

Setting = Literal["sensitivity", "rms_threshold"]

# Tried unless other values are named: from nearly everything to nearly nothing, in steps a person would take.
USUAL_VALUES: dict[Setting, tuple[float, ...]] = {
    "sensitivity": (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0),
    "rms_threshold": (0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5),
}
# A value of the table that comes this near to the wish is taken as it is: its number is rounder.
NEAR_ENOUGH = 0.02
FINER_STEPS = 8
VALUE_DIGITS = 4


@dataclass(frozen=True)
class Picked:
    """What one value picks of one video, or of many: sums.

    `moments` counts stretches of action before the limits of the montage, however long each is; `limited` the
    videos in which those limits left something out.
    """

    moments: int = 0
    clips: int = 0
    seconds: float = 0.0
    limited: int = 0
    came: int = 0
    went: int = 0

    def __add__(self, other: Picked) -> Picked:
        return Picked(
            self.moments + other.moments,
            self.clips + other.clips,
            self.seconds + other.seconds,
            self.limited + other.limited,
            self.came + other.came,
            self.went + other.went,
        )


@dataclass(frozen=True)
class Row:
    """One value, and what it would pick of a whole library."""

    value: float
    picked: Picked
    videos: int
    hours: float

    @property
    def montage_s(self) -> float:
        """The length of a montage, on average over all videos: one without highlights counts as 0."""
        return self.picked.seconds / self.videos if self.videos else 0.0

    @property
    def per_hour(self) -> float:
        return self.picked.moments / self.hours if self.hours > 0 else 0.0


@dataclass(frozen=True)
class Wish:
    kind: Literal["montage_s", "per_hour"]
    amount: float

    def given_by(self, row: Row) -> float:
        return row.montage_s if self.kind == "montage_s" else row.per_hour


def wish_of(settings: CalibrationSettings) -> Wish | None:
    if settings.montage_s is not None:
        return Wish("montage_s", settings.montage_s)
    return None if settings.per_hour is None else Wish("per_hour", settings.per_hour)


# --- choosing a value


def nearest(rows: Sequence[Row], wish: Wish) -> Row:
    """The value that comes nearest to the wish, looked for from the strictest down.

    More time is found the lower the threshold, but not more moments for ever: in the end they all become one.
    So what counts is the first value that reaches the wish, or the one before it. None does: the one with most.
    """
    from_the_strictest = sorted(rows, key=lambda row: -row.value)
    before: Row | None = None
    for row in from_the_strictest:
        if wish.given_by(row) >= wish.amount:
            is_nearer = before is not None and abs(wish.given_by(before) - wish.amount) <= abs(
                wish.given_by(row) - wish.amount
            )
            return before if before is not None and is_nearer else row
        before = row
    return max(from_the_strictest, key=wish.given_by)


def is_met(row: Row, wish: Wish) -> bool:
    return abs(wish.given_by(row) - wish.amount) <= NEAR_ENOUGH * wish.amount


def finer_values(rows: Sequence[Row], wish: Wish) -> list[float]:
    """Values between the two of the table that the wish lies between; none when one of those will do."""
    ordered = sorted(rows, key=lambda row: row.value)
    reaching = [number for number, row in enumerate(ordered) if wish.given_by(row) >= wish.amount]
    if is_met(nearest(rows, wish), wish) or not reaching or reaching[-1] + 1 == len(ordered):
        return []
    low, high = ordered[reaching[-1]].value, ordered[reaching[-1] + 1].value
    steps = [_rounded(low + (high - low) * step / FINER_STEPS) for step in range(1, FINER_STEPS)]
    return sorted({value for value in steps if low < value < high})


def _rounded(value: float) -> float:
    return float(f"{value:.{VALUE_DIGITS}g}")


def remarks(rows: Sequence[Row], chosen: Row, wish: Wish, output: OutputSettings) -> list[str]:
    """What a person should know before taking the value: whether it gives what was wished for, and if not, why."""
    told = []
    given = [wish.given_by(row) for row in rows]
    if max(given) < wish.amount and not is_met(chosen, wish):
        told.append(f"no value that was tried gives so much; {max(given):.4g} is the most")
    if min(given) > wish.amount and not is_met(chosen, wish):
        told.append(f"no value that was tried gives so little; {min(given):.4g} is the least")
    limits = f"output.max_duration_s ({output.max_duration_s:g}) and output.max_segments ({output.max_segments})"
    if wish.kind == "montage_s" and 2 * chosen.picked.limited > chosen.videos:
        told.append(f"in {chosen.picked.limited} of {chosen.videos} videos {limits} decide, not the threshold")
    return told

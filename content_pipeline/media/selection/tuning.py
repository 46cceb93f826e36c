"""Which value of a setting gives what is wanted: a table of what each would pick, and the one nearest to a target.

Pure: what a value picks of one recording is found by `threshold_trial`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from content_pipeline.settings import CalibrationSettings, Settings

Setting = Literal["sensitivity", "rms_threshold"]

# Tried unless other values are named: from nearly everything to nearly nothing, in steps a person would take.
USUAL_VALUES: dict[Setting, tuple[float, ...]] = {
    "sensitivity": (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0),
    "rms_threshold": (0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5),
}
# A value of the table that comes this near to the target is taken as it is: its number is rounder.
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
class Target:
    kind: Literal["montage_s", "per_hour"]
    amount: float

    def given_by(self, row: Row) -> float:
        return row.montage_s if self.kind == "montage_s" else row.per_hour


def target_of(settings: CalibrationSettings) -> Target | None:
    if settings.montage_s is not None:
        return Target("montage_s", settings.montage_s)
    return None if settings.per_hour is None else Target("per_hour", settings.per_hour)


# --- choosing a value


def nearest(rows: Sequence[Row], target: Target) -> Row:
    """The value that comes nearest to the target.

    One that picks nothing is taken only when all do: whoever wants a little does not want none.
    """
    finding = [row for row in rows if row.picked.clips]
    return _nearest(finding if finding else rows, target)


def unless_as_good(current: Row | None, best: Row, rows: Sequence[Row], target: Target) -> Row:
    """The value that counts now, if what it gives is as good as the same; else the best.

    The search for the best knows nothing of the value that counts now: the same target leads to the same value,
    whatever was applied before.
    """
    return best if current is None or not _as_good(rows, current, best, target) else current


def _nearest(rows: Sequence[Row], target: Target) -> Row:
    """Looked for from the strictest down.

    More time is found the lower the threshold, but not more moments for ever: in the end they all become one.
    So what counts is the first value that reaches the target, or the one before it. None does: the one with most.
    """
    too_much, too_little = _around(rows, target)
    if too_much is None:
        return max(sorted(rows, key=lambda row: -row.value), key=target.given_by)
    if too_little is None:
        return too_much
    return min((too_little, too_much), key=lambda row: abs(target.given_by(row) - target.amount))


def _around(rows: Sequence[Row], target: Target) -> tuple[Row | None, Row | None]:
    """The strictest value that reaches the target, if any does, and the next stricter one, which does not."""
    stricter: Row | None = None
    for row in sorted(rows, key=lambda row: -row.value):
        if target.given_by(row) >= target.amount:
            return row, stricter
        stricter = row
    return None, stricter


def _as_good(rows: Sequence[Row], current: Row, best: Row, target: Target) -> bool:
    """Whether nothing is won by going from one to the other, nor by any value on the way."""
    low, high = sorted((current.value, best.value))
    given = target.given_by(best)
    on_the_way = [target.given_by(row) for row in (current, *rows) if low <= row.value <= high]
    is_alike = all(abs(amount - given) <= NEAR_ENOUGH * given for amount in on_the_way)
    return is_alike and (is_met(current, target) or not is_met(best, target))


def is_met(row: Row, target: Target) -> bool:
    return abs(target.given_by(row) - target.amount) <= NEAR_ENOUGH * target.amount


def finer_values(rows: Sequence[Row], target: Target) -> list[float]:
    """Values between the two of the table that the target lies between; none when one of those will do."""
    ordered = sorted(rows, key=lambda row: row.value)
    reaching = [number for number, row in enumerate(ordered) if target.given_by(row) >= target.amount]
    if is_met(nearest(rows, target), target) or not reaching or reaching[-1] + 1 == len(ordered):
        return []
    low, high = ordered[reaching[-1]].value, ordered[reaching[-1] + 1].value
    steps = [_rounded(low + (high - low) * step / FINER_STEPS) for step in range(1, FINER_STEPS)]
    return sorted({value for value in steps if low < value < high})


def _rounded(value: float) -> float:
    return float(f"{value:.{VALUE_DIGITS}g}")


# --- what to know about it


def is_in_reach(rows: Sequence[Row], target: Target) -> bool:
    """Whether the target lies between what two values give, or as good as: if not, none of them is worth taking."""
    return None not in _around(rows, target) or is_met(nearest(rows, target), target)


def makes_no_difference(rows: Sequence[Row]) -> bool:
    """Whether all values pick the same: then the setting decides nothing, and none of them is worth taking."""
    return len(rows) > 1 and len({row.picked for row in rows}) == 1


def no_difference(setting: Setting) -> str:
    other = "rms_threshold" if setting == "sensitivity" else "sensitivity"
    return f"{setting} makes no difference here, every value that was tried picks the same; try `--setting {other}`"


def remarks(rows: Sequence[Row], chosen: Row, target: Target | None, settings: Settings) -> list[str]:
    """What a person should know before taking the value: whether it reaches the target, and if not, what limits."""
    notes = [] if chosen.picked.clips else [f"{chosen.value:g} picks nothing in any video"]
    if target is None:
        return notes
    if not is_in_reach(rows, target):
        return [*notes, _out_of_reach(rows, chosen, target, settings)]
    too_much, too_little = _around(rows, target)
    if not is_met(chosen, target) and too_much is not None and too_little is not None:
        notes.append(
            f"there is no closer value between {_described(too_much, target)} and {_described(too_little, target)}"
        )
    if target.kind == "montage_s" and 2 * chosen.picked.limited > chosen.videos:
        notes.append(
            f"in {chosen.picked.limited} of {chosen.videos} videos {_montage_limits(settings)} decide the length, "
            "not the threshold"
        )
    return notes


def _described(row: Row, target: Target) -> str:
    return f"{row.value:g} ({_amount(target.given_by(row), target)})"


def _amount(amount: float, target: Target) -> str:
    return f"{amount:.1f} {'s' if target.kind == 'montage_s' else 'per hour'}"


def _montage_limits(settings: Settings) -> str:
    output = settings.output
    return f"output.max_duration_s ({output.max_duration_s:g}) and output.max_segments ({output.max_segments})"


def _out_of_reach(rows: Sequence[Row], chosen: Row, target: Target, settings: Settings) -> str:
    """How far the values go, and which setting leads further."""
    strictest, most = max(rows, key=lambda row: row.value), max(target.given_by(row) for row in rows)
    if target.given_by(strictest) > target.amount:
        advice = f", or lower {_montage_limits(settings)}" if target.kind == "montage_s" else ""
        return f"even the strictest value, {_described(strictest, target)}, gives more; try stricter values{advice}"
    if target.kind == "per_hour":  # a lower threshold finds more events, but merges them into fewer moments
        advice = f"lower processing.merge_gap_s ({settings.processing.merge_gap_s:g})"
    elif chosen.picked.limited:
        advice = f"raise {_montage_limits(settings)}"
    else:
        advice = f"raise processing.max_segment_duration_s ({settings.processing.max_segment_duration_s:g})"
    return f"no value gives more than {_amount(most, target)}; {advice}"

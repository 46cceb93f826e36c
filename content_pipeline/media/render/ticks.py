"""Whole numbers of clock ticks, moved between clocks without a rounding that adds up."""

from __future__ import annotations

from fractions import Fraction


def rescaled(ticks: int, scale: Fraction) -> int:
    """`ticks * scale`, rounded half up; much cheaper than multiplying fractions."""
    return (2 * ticks * scale.numerator + scale.denominator) // (2 * scale.denominator)

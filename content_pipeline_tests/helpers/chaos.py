"""How much the tests that kill and race things are to do: `CHAOS` is set by `make chaos` and `make chaos-slice`.

The name does not begin like a setting's: the program, which the tests start with their own environment, would refuse
it as one that it does not know.
"""

from __future__ import annotations

import os
from typing import TypeVar

Amount = TypeVar("Amount")

SIZE = os.environ.get("CHAOS", "")
assert SIZE in ("", "slice", "full"), f"CHAOS must be `slice` or `full`, not {SIZE!r}"


def by_size(usual: Amount, full: Amount) -> Amount:
    """What a test does in an ordinary run and in a slice, and what in a full one."""
    return full if SIZE == "full" else usual

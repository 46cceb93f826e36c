"""Loading what is heavy once, before children are forked: they start with it in memory."""

from __future__ import annotations

import importlib
from collections.abc import Iterable


def warm(modules: Iterable[str]) -> None:
    for module in modules:
        importlib.import_module(module)

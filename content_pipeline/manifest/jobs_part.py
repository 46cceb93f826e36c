"""What the parts of `manifest.jobs` share: each part is a class in the file of its verb."""

from __future__ import annotations

from collections.abc import Callable

from content_pipeline.manifest.database import Database


class JobsPart:
    """`random` gives numbers in [0, 1) for the back-off; a lease lasts for `lease_s`."""

    def __init__(self, database: Database, random: Callable[[], float], lease_s: float) -> None:
        self._database = database
        self._random = random
        self._lease_s = lease_s

"""The roots that the manifest knows: adding one, and asking whether this host can work below it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import sqlalchemy as sa

from content_pipeline.errors import StorageMismatch, printable
from content_pipeline.manifest.add_root import add_root
from content_pipeline.manifest.breaker import ELSEWHERE, LIBRARY, Breaker
from content_pipeline.manifest.claim import can_be_done_here
from content_pipeline.manifest.database import Database
from content_pipeline.manifest.database_retry import retry_when_away
from content_pipeline.manifest.lifecycle import CLAIMABLE
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.schema import job_items
from content_pipeline.manifest.seen_roots import RootState, RootView, attach_known, known_roots, view_of
from content_pipeline.manifest.storage_roots import name_and_rest
from content_pipeline.system.root_marker import NotOurs, read_marker


@retry_when_away
class Roots:
    """`mapped`: where the settings of this host say that each root is."""

    def __init__(self, database: Database, mapped: Mapping[str, Path]) -> None:
        self._database = database
        self._mapped = mapped

    def views(self) -> Sequence[RootView]:
        """Every root that the manifest or the settings of this host know, by name."""
        known = self._known()
        names = sorted(known.keys() | self._mapped.keys())
        return [view_of(name, self._mapped.get(name), known.get(name)) for name in names]

    def expect(self) -> Sequence[str]:
        """Raises when what the settings of this host say of a root is not so. Returns what others have to do."""
        views = self.views()
        wrong = [view.problem for view in views if view.problem is not None and view.state is not RootState.UNMAPPED]
        if wrong:
            raise StorageMismatch("; ".join(wrong))
        return [view.problem for view in views if view.problem is not None]

    def expect_mapped(self, folder: Path) -> None:
        """Raises when a folder lies on storage that has a name, and this host does not call it so.

        The same files would be known twice, and their videos published twice.
        """
        names = {marker: name for name, marker in self._known().items()}
        for place in (folder, *folder.parents) if names else ():
            name = names.get(_marker_at(place))
            if name is not None and self._mapped.get(name) != place:
                raise StorageMismatch(
                    f"{printable(place)} is the root `{name}`, and the settings of this host do not say so: "
                    f'write `{name} = "{printable(place)}"` below `[roots]`'
                )

    def why_not_here(self, job: Job) -> str | None:
        """Why this host cannot work on a job; None when it can."""
        output_dir = "" if job.options is None else str(job.options.get("output_dir", ""))
        stored = [self._database.roots.to_stored(path) for path in (job.subject, output_dir)]
        names = {name_and_rest(path)[0] for path in stored}
        problems = (view.problem for view in self.views() if view.name in names) if names != {None} else ()
        return next((problem for problem in problems if problem is not None), None)

    def only_elsewhere(self) -> list[Breaker]:
        """What keeps jobs of this manifest from being done here: a pause for each library that has some."""
        with self._database.connect() as connection:
            if not known_roots(connection):
                return []
            waiting = job_items.c.status.in_(list(CLAIMABLE)), sa.not_(can_be_done_here(connection))
            query = sa.select(job_items.c.library).where(*waiting).distinct().order_by(job_items.c.library)
            libraries = connection.execute(query).scalars().all()
        problems = "; ".join(view.problem for view in self.views() if view.problem is not None) if libraries else ""
        return [Breaker(LIBRARY + library, ELSEWHERE, message=problems) for library in libraries]

    def add(self, name: str, marker: str) -> int:
        """From now on what lies below this root is stored by its name. Returns how many paths were stored anew."""
        folder = str(self._mapped[name])
        with self._database.transaction() as tx:
            changed = add_root(tx, name, folder, marker)
        attach_known(self._database.engine, self._mapped)
        return changed

    def _known(self) -> dict[str, str]:
        with self._database.connect() as connection:
            return known_roots(connection)


def _marker_at(folder: Path) -> str:
    """Empty where there is none, or something else of its name."""
    try:
        return read_marker(folder) or ""
    except (NotOurs, OSError):
        return ""

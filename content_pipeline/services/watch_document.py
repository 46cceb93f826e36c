"""What was done about the watched folders, as a document."""

from __future__ import annotations

from content_pipeline.errors import printable
from content_pipeline.services.document import Document


class WatchedFolder(Document):
    """What was done about a folder; `error` if it could not be looked at."""

    folder: str
    videos: int = 0
    enqueued: int = 0
    unsettled: int = 0
    changed_outputs: tuple[str, ...] = ()
    error: str | None = None
    hint: str | None = None

    @property
    def in_words(self) -> str:
        if self.error is not None:
            return f"{printable(self.folder)}: {self.error}"
        done = f"{printable(self.folder)}: {self.enqueued} enqueued, {self.unsettled} not settled yet"
        changed = ", ".join(printable(path) for path in self.changed_outputs)
        return f"{done}; passed over, for a montage was published under the name: {changed}" if changed else done


class WatchDocument(Document):
    """`moving`: the signatures of files that have to look the same once more before they are taken."""

    folders: tuple[WatchedFolder, ...]
    moving: dict[str, str]

"""Roots: shared storage by name, added once, and seen by each host at a place of its own."""

from __future__ import annotations

from content_pipeline.errors import BadSettings, FolderUnwritable, StorageMismatch, printable
from content_pipeline.manifest.database import Access
from content_pipeline.manifest.ids import new_ulid
from content_pipeline.manifest.open import open_manifest, open_named_manifest
from content_pipeline.manifest.seen_roots import RootState, RootView
from content_pipeline.services.document import Document, DocumentList
from content_pipeline.settings import Settings
from content_pipeline.system.root_marker import NAME, NotOurs, make_marker


class AddedRoot(Document):
    """`renamed`: how many rows name their paths by the root now; 0 when it was known before."""

    name: str
    folder: str
    renamed: int


class RootDocument(Document):
    """`folder`: where this host has it. `problem`: why work below it cannot be done here."""

    name: str
    folder: str | None
    state: RootState
    problem: str | None

    @classmethod
    def of(cls, view: RootView) -> RootDocument:
        folder = None if view.folder is None else printable(view.folder)
        return cls(name=view.name, folder=folder, state=view.state, problem=view.problem)


class RootsDocument(DocumentList[RootDocument]):
    """Every root that the manifest or the settings of this host know."""


def list_roots(settings: Settings) -> RootsDocument:
    return RootsDocument(tuple(map(RootDocument.of, open_named_manifest(settings, Access.READ).roots.views())))


def add_root(settings: Settings, name: str) -> AddedRoot:
    """Make the marker, and have every path below the folder stored by the name. Doing it twice changes nothing."""
    folder = settings.roots.folders.get(name)
    if folder is None:
        raise BadSettings(f"the settings do not say where the root `{name}` is: write it below `[roots]`")
    if not folder.is_dir():
        raise StorageMismatch(f"the root `{name}` ({printable(folder)}) is no folder: is the storage mounted?")
    manifest = open_manifest(settings)
    view = next(view for view in manifest.roots.views() if view.name == name)
    if view.state not in (RootState.SEEN, RootState.UNKNOWN):
        raise StorageMismatch(str(view.problem))
    try:
        marker = make_marker(folder, new_ulid())
    except NotOurs as error:
        raise StorageMismatch(f"{printable(str(error))} is no marker of content-ai: it was left as it is") from error
    except OSError as error:
        raise FolderUnwritable(f"{printable(folder / NAME)} cannot be made: {error.strerror}") from error
    return AddedRoot(name=name, folder=printable(folder), renamed=manifest.roots.add(name, marker))

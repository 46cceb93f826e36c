"""The manifest that the settings name."""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa

from content_pipeline.errors import NoManifest, OldSchema
from content_pipeline.manifest.database import Access, file_at, named_failures, open_engine
from content_pipeline.manifest.database_retry import call_with_retries
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.schema import metadata
from content_pipeline.manifest.seen_roots import attach_known
from content_pipeline.manifest.sqlite import memory_engine
from content_pipeline.settings import Settings
from content_pipeline.settings.database_url import DatabaseUrl


def open_manifest(settings: Settings, access: Access = Access.MAKE, retry_s: float = 0.0) -> Manifest:
    """Where there is none, and none may be made, an empty one stands in that vanishes with the command.

    `retry_s` is how long opening it, and every operation after, may wait for a database that is away.
    """
    engine = call_with_retries(lambda: _engine(settings, access), retry_s)
    manifest = _manifest(engine, settings)
    manifest.set_retry_time(retry_s)
    return manifest


def open_in_a_child(settings: Settings) -> Manifest:
    """Retries for longer than its parent: whoever keeps the lease decides when to give up, and ends its children."""
    return open_manifest(settings, retry_s=settings.queue.give_up_s + settings.queue.lease_s)


def open_named_manifest(settings: Settings, access: Access) -> Manifest:
    """The same, but a manifest that a person named must be there: it is taken for a slip otherwise."""
    if settings.db is not None:
        return _manifest(_with_roots(engine_as_it_is(settings.manifest_url, access), settings), settings)
    return open_manifest(settings, access)


def _manifest(engine: sa.Engine, settings: Settings) -> Manifest:
    return Manifest(engine, lease_s=settings.queue.lease_s, roots=settings.roots.folders)


def _with_roots(engine: sa.Engine, settings: Settings) -> sa.Engine:
    """Paths below the roots that this host maps are translated from now on."""
    with named_failures(engine):
        attach_known(engine, settings.roots.folders)
    return engine


def _engine(settings: Settings, access: Access) -> sa.Engine:
    try:
        return _with_roots(engine_as_it_is(settings.manifest_url, access), settings)
    except NoManifest:
        engine = memory_engine()
        metadata.create_all(engine)
        return engine


def engine_as_it_is(url: DatabaseUrl, access: Access = Access.READ) -> sa.Engine:
    """Of a manifest that an earlier version made, a copy in the newest schema."""
    try:
        return open_engine(url, access)
    except OldSchema:
        path = file_at(url)
        if path is None:
            raise
        return _brought_up_to_date(path)


def _brought_up_to_date(path: Path) -> sa.Engine:
    """A copy in the newest schema: who only looks sees everything, and changes nothing."""
    from content_pipeline.manifest.migrate import upgrade

    engine = memory_engine(copy_of=path)
    upgrade(engine)
    return engine

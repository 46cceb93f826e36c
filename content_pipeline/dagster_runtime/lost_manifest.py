"""Notice that the manifest was lost, and have it rebuilt. Dagster is loaded only when there may be something to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from content_pipeline.dagster_runtime.dagster_yaml import has_records, home_path
from content_pipeline.errors import counted
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.settings import Settings

if TYPE_CHECKING:
    from content_pipeline.dagster_runtime.manifest_rebuild import Rebuilt


def has_dagster_records(settings: Settings) -> bool:
    """Whether Dagster has records; asking for them would make the folder, or the tables."""
    if settings.dagster_storage == "sqlite":
        return has_records(home_path(settings))
    from content_pipeline.dagster_runtime.configured_storage import postgres_of
    from content_pipeline.dagster_runtime.postgres_storage import has_records as postgres_has_records

    url = postgres_of(settings)
    return url is not None and postgres_has_records(url)


def recover(settings: Settings, manifest: Manifest) -> Rebuilt | None:
    """Rebuild a manifest that knows no video at all, although Dagster does. None when there was nothing to do."""
    if not manifest.videos.is_empty() or not has_dagster_records(settings):
        return None
    rebuilt = rebuild_from_home(settings, manifest)
    return rebuilt if rebuilt.videos else None


def rebuild_from_home(settings: Settings, manifest: Manifest) -> Rebuilt:
    from content_pipeline.dagster_runtime.instance import open_instance
    from content_pipeline.dagster_runtime.manifest_rebuild import rebuild

    with open_instance(settings) as instance:
        return rebuild(instance, manifest)


def forget_in_dagster(settings: Settings) -> int:
    """Forget the videos there too, or a rebuild would bring back what a person wanted gone."""
    if not has_dagster_records(settings):
        return 0
    from content_pipeline.dagster_runtime.instance import open_instance
    from content_pipeline.dagster_runtime.manifest_rebuild import forget_videos

    with open_instance(settings) as instance:
        return forget_videos(instance)


def describe_rebuilt(rebuilt: Rebuilt) -> str:
    videos, jobs = counted(rebuilt.videos, "video"), counted(rebuilt.jobs, "job")
    return f"{videos} and {jobs} were rebuilt from Dagster's records."

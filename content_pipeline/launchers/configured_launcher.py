"""The launcher that `dagster.yaml` names: of this machine or of several, as the setting `launcher.engine` says.

So that one file serves both, and holds no password: the address of Redis comes from the settings at run time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from content_pipeline.dagster_runtime.dagster_yaml import NAME as DAGSTER_YAML
from content_pipeline.dagster_runtime.private_api import ConfigurableClass, ConfigurableClassData, RunLauncher
from content_pipeline.errors import BadSettings
from content_pipeline.launchers.local.run_launcher import WarmRunLauncher
from content_pipeline.launchers.queue_launcher import QueueRunLauncher
from content_pipeline.settings import Settings, load


class ConfiguredRunLauncher(RunLauncher, ConfigurableClass):
    """Makes one of the two, and is none itself."""

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return WarmRunLauncher.config_type()

    @classmethod
    def from_config_value(  # type: ignore[override]  # the one that it makes is a launcher, too
        cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]
    ) -> QueueRunLauncher:
        settings = load().settings
        if settings.launcher.engine == "local":
            return WarmRunLauncher.from_config_value(inst_data, config_value)
        from content_pipeline.launchers.rq.run_launcher import RqRunLauncher  # RQ is loaded where it is used

        return RqRunLauncher(settings)


def expect_engine(settings: Settings, launcher: QueueRunLauncher | None) -> None:
    """A `dagster.yaml` of before, or an edited one, may name the launcher of one machine whatever the setting says."""
    if settings.launcher.engine == "rq" and isinstance(launcher, WarmRunLauncher):
        raise BadSettings(
            f"`launcher.engine` = 'rq', but {DAGSTER_YAML} in Dagster's home names {WarmRunLauncher.__name__}",
            hint=f"Let it name {ConfiguredRunLauncher.__name__} of {ConfiguredRunLauncher.__module__}, as shipped.",
        )

"""A run launcher that `dagster.yaml` can name, and that remembers what Dagster asked of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import dagster as dg

from content_pipeline.dagster_runtime import private_api as internals


class RecordingLauncher(internals.RunLauncher, internals.ConfigurableClass):
    asked: ClassVar[list[Any]] = []

    def __init__(self, inst_data: internals.ConfigurableClassData | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._inst_data = inst_data

    @property
    def inst_data(self) -> internals.ConfigurableClassData | None:
        return self._inst_data

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        return {"idle_seconds": dg.Int}

    @classmethod
    def from_config_value(
        cls, inst_data: internals.ConfigurableClassData, _config_value: Mapping[str, Any]
    ) -> RecordingLauncher:
        return cls(inst_data)

    def launch_run(self, context: internals.LaunchRunContext) -> None:
        self.asked.append(context)

    @property
    def supports_resume_run(self) -> bool:
        return True

    def resume_run(self, context: internals.ResumeRunContext) -> None:
        self.asked.append(context)

    def terminate(self, run_id: str) -> bool:
        return False

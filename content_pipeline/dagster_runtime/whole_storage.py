"""Dagster's runs, events and schedules, kept by three storages of one kind: the storage of an instance."""

from __future__ import annotations

from dagster import DagsterInstance

from content_pipeline.dagster_runtime import private_api as internals


class WholeStorage(internals.DagsterStorage):
    def __init__(
        self,
        runs: internals.RunStorage,
        events: internals.EventLogStorage,
        schedules: internals.ScheduleStorage,
        inst_data: internals.ConfigurableClassData | None,
    ) -> None:
        self._runs, self._events, self._schedules = runs, events, schedules
        self._inst_data = inst_data
        super().__init__()  # type: ignore[no-untyped-call]  # of Dagster's mix-in

    @property
    def inst_data(self) -> internals.ConfigurableClassData | None:
        return self._inst_data

    def register_instance(self, instance: DagsterInstance) -> None:
        super().register_instance(instance)
        for part in (self._runs, self._events, self._schedules):
            if not part.has_instance:
                part.register_instance(instance)

    @property
    def event_log_storage(self) -> internals.EventLogStorage:
        return self._events

    @property
    def run_storage(self) -> internals.RunStorage:
        return self._runs

    @property
    def schedule_storage(self) -> internals.ScheduleStorage:
        return self._schedules

    # Only the stock classes can be named part by part.
    event_storage_data = run_storage_data = schedule_storage_data = property(lambda _self: None)

    def dispose(self) -> None:
        for part in (self._events, self._runs, self._schedules):
            part.dispose()

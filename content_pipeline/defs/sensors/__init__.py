"""What happens by itself while the daemon runs: one file per sensor.

- `watch_libraries.py`: enqueues what is new or edited in the watched folders
- `dispatch_jobs.py`: asks Dagster for a run of each job that is due; a sensor for each kind of job
- `reconcile_manifest.py`: brings back jobs and runs whose worker is gone
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import dagster as dg

from content_pipeline.defs.sensors.dispatch_jobs import dispatch_sensor
from content_pipeline.defs.sensors.reconcile_manifest import reconcile_sensor
from content_pipeline.defs.sensors.watch_libraries import watch_sensor
from content_pipeline.execution.job_kinds import HANDLERS
from content_pipeline.settings import Settings


def build_sensors(settings: Settings, current: Callable[[], Settings]) -> Sequence[dg.SensorDefinition]:
    """`current` reads the settings anew: a tick goes by the file as it is now."""
    return [
        watch_sensor(current, max(1, round(settings.schedule.watch_interval_s))),
        *(dispatch_sensor(current, handler) for handler in HANDLERS),
        reconcile_sensor(current),
    ]

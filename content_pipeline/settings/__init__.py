"""Settings: the model with every default, and where values come from."""

from content_pipeline.settings.loading import CONFIG_FILE_NAME, ENV_PREFIX, Resolved, load, load_settings
from content_pipeline.settings.model import (
    BestOfSettings,
    CalibrationSettings,
    DetectionSettings,
    EnergySettings,
    LibrarySettings,
    LimitSettings,
    OutputSettings,
    ProcessingSettings,
    QueueSettings,
    RenderSettings,
    ScheduleSettings,
    Settings,
    flatten,
)

__all__ = [
    "CONFIG_FILE_NAME",
    "ENV_PREFIX",
    "BestOfSettings",
    "CalibrationSettings",
    "DetectionSettings",
    "EnergySettings",
    "LibrarySettings",
    "LimitSettings",
    "OutputSettings",
    "ProcessingSettings",
    "QueueSettings",
    "RenderSettings",
    "Resolved",
    "ScheduleSettings",
    "Settings",
    "flatten",
    "load",
    "load_settings",
]

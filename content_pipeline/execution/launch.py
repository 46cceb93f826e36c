"""A launch: a run that somebody asked to have executed, as a plain record that any launcher can carry."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

from content_pipeline.settings.run_overrides import RunOverrides


@dataclass(frozen=True)
class Launch:
    """`worker`, `pid` and `log` are known once a worker executed it.

    No password is in it: a worker has the manifest's from its own environment. `database` says which manifest the
    launch belongs to, so that a worker of another one does not execute it.
    """

    run_id: str
    job_name: str
    partition_key: str | None = None
    job_tag: str | None = None
    assets: tuple[str, ...] = ()
    overrides: RunOverrides = field(default_factory=RunOverrides)
    priority: int = 0
    launched_at: float = 0.0
    environment: dict[str, str] = field(default_factory=dict)
    database: str | None = None  # of its manifest; None when the settings could not be read
    folder: str = "/"
    worker: str | None = None
    pid: int | None = None
    log: str | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Launch:
        """Fields that only another version knows are left out."""
        known = {item.name: value[item.name] for item in fields(cls) if item.name in value}
        overrides = RunOverrides.from_json(known["overrides"]) if "overrides" in known else RunOverrides()
        return cls(**{**known, "assets": tuple(value["assets"]), "overrides": overrides})

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

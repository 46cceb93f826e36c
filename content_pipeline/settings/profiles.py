"""Defaults for a purpose: `profile` changes what a setting is when nobody says; whatever is set explicitly wins.

`dev` notices soon and gives up soon; `production` bears with large recordings, slow disks and restarts of a database.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Layer = tuple[str, Mapping[str, Any]]

PROFILES: Mapping[str, Mapping[str, Any]] = {
    "dev": {
        "schedule.watch_interval_s": 5.0,
        "queue.heartbeat_s": 5.0,
        "queue.lease_s": 60.0,
        "queue.give_up_s": 40.0,
        "queue.grace_s": 10.0,
        "queue.stall_s": 120.0,
        "queue.max_attempts": 2,
    },
    "production": {
        "schedule.watch_interval_s": 30.0,
        "queue.heartbeat_s": 30.0,
        "queue.lease_s": 600.0,
        "queue.give_up_s": 400.0,
        "queue.grace_s": 120.0,
        "queue.stall_s": 3600.0,
        "queue.max_attempts": 5,
    },
}

# Variables that other set-ups of queues know, and the setting that means what their name says.
VARIABLES: Mapping[str, str] = {
    "REDIS_URL": "redis_url",
    "POLLER_INTERVAL_SECONDS": "schedule.watch_interval_s",
    "STALE_JOB_TIMEOUT_SECONDS": "queue.lease_s",
    "FAILED_JOB_TIMEOUT_SECONDS": "queue.stall_s",
}
# Of a lease, as the defaults have it: a worker that cannot renew in time would lose every job.
HEARTBEAT_SHARE, GIVE_UP_SHARE = 1 / 9, 2 / 3


def profile_layers(explicit: Mapping[str, Any], env: Mapping[str, str]) -> list[Layer]:
    """What is below everything explicit: the profile, and what follows from how long a lease was asked to last."""
    name = str(explicit.get("profile"))
    layers: list[Layer] = [(f"profile {name}", PROFILES[name])] if name in PROFILES else []
    lease_s = _number(env.get("STALE_JOB_TIMEOUT_SECONDS"))
    if lease_s is not None and "queue.lease_s" not in explicit:
        shares = {"queue.heartbeat_s": lease_s * HEARTBEAT_SHARE, "queue.give_up_s": lease_s * GIVE_UP_SHARE}
        layers.append(("from STALE_JOB_TIMEOUT_SECONDS", {key: round(value, 3) for key, value in shares.items()}))
    return layers


def variable_layers(env: Mapping[str, str]) -> list[Layer]:
    """A variable that is empty says nothing."""
    return [(f"environment {name}", {key: env[name]}) for name, key in VARIABLES.items() if env.get(name, "").strip()]


def _number(text: str | None) -> float | None:
    """None also for what is no number: the setting itself refuses it, by name."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None

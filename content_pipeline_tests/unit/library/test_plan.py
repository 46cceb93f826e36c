"""Why each video would run, told in one line and stage by stage."""

from pathlib import Path
from typing import Any

import pytest

from content_pipeline.library.plan import Action, Known, Wanted, plan
from content_pipeline.library.recipe import Recipe, changes
from content_pipeline.library.scan import Found, Scan
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import JobSummary
from content_pipeline.media.source import Signature
from content_pipeline.settings.job_options import JobOptions

ROOT = Path("/games")
FIRST = JobOptions("/one", {"output.max_segments": 1})
VERSIONS = dict.fromkeys(("fingerprint", "energy", "detections", "clip", "montage"), 1)


def _recipe(**detection: object) -> Recipe:
    return Recipe({**{stage: {} for stage in VERSIONS}, "detections": detection}, VERSIONS)


def _found(name: str) -> Found:
    return Found(ROOT / name, Signature(1, hash(name), 10, 1, 1))


def _job(status: State, recipe: Recipe, **given: Any) -> JobSummary:
    values: dict[str, Any] = {
        "error_code": None,
        "last_error": None,
        "output_files": [],
        "stage_keys": {},
        "results": {},
    }
    values |= {"config_hash": recipe.config_hash, "video_key": "key", "job_id": "id", "subject": "/games/a.mp4"}
    return JobSummary(status=status, **{**values, **given})


def _planned(job: JobSummary | None, before: Recipe, wanted: Wanted) -> Any:
    found = _found("a.mp4")
    known = Known(
        signatures={"/games/a.mp4": str(found.signature)},
        jobs={} if job is None else {"/games/a.mp4": job},
        recipes={before.config_hash: before},
    )
    (video,) = plan(Scan(ROOT, (found,), (), {}), known, wanted).videos
    return video


OLD = _recipe(threshold=0.1)
NEW = _recipe(threshold=0.2)
MOVED = {"output_stats": {"/one/a.mp4": [1, 1]}}
TABLE = {
    "new": (None, Wanted(OLD, "/one"), Action.CREATE, "new"),
    "dirty": (_job(State.SUCCEEDED, OLD), Wanted(NEW, "/one"), Action.REDO, "dirty: threshold 0.1 -> 0.2"),
    "dirty and elsewhere": (
        _job(State.SUCCEEDED, OLD, results=MOVED),
        Wanted(NEW, "/two"),
        Action.REDO,
        "dirty: threshold 0.1 -> 0.2; output folder /one -> /two",
    ),
    "up to date": (_job(State.SUCCEEDED, OLD), Wanted(OLD, "/one"), Action.KEEP, ""),
    "forced": (_job(State.SUCCEEDED, OLD), Wanted(OLD, "/one", FIRST, force=True), Action.REDO, "dirty: forced"),
    "failed": (
        _job(State.FAILED, OLD, error_code="no_audio"),
        Wanted(OLD, "/one"),
        Action.LEAVE,
        "failed (no_audio), not tried again, as nothing changed (`content-ai queue retry` does)",
    ),
    "failed at a limit": (
        _job(State.FAILED, OLD, options={"output_dir": "/x", "settings": {"limits.max_streams": 1}}),
        Wanted(OLD, "/one", JobOptions("/one", {})),
        Action.RETRY,
        "failed before; limits.max_streams 1 -> 64",
    ),
    "waiting as asked": (
        _job(State.PENDING, OLD, options=FIRST.as_json()),
        Wanted(OLD, "/one", FIRST),
        Action.WAIT,
        "already pending",
    ),
    "waiting for a force": (
        _job(State.DIRTY, OLD, options=FIRST.as_json(), force_id="f"),
        Wanted(OLD, "/one", FIRST),
        Action.WAIT,
        "was waiting, with --force",
    ),
    "waiting otherwise": (
        _job(State.PENDING, OLD, options=FIRST.as_json()),
        Wanted(OLD, "/two", JobOptions("/two", {})),
        Action.WAIT,
        "already pending; now with output.max_segments 1 -> 12, output folder /one -> /two",
    ),
    "running otherwise": (
        _job(State.RUNNING, OLD, options=FIRST.as_json()),
        Wanted(OLD, "/two", JobOptions("/two", dict(FIRST.settings))),
        Action.WAIT,
        "already running; afterwards with output folder /one -> /two",
    ),
    "waiting for the daemon": (
        _job(State.PENDING, OLD),
        Wanted(OLD, "/one", FIRST),
        Action.WAIT,
        "already pending; now with the settings and the output folder of this command",
    ),
    "a command's, seen by the daemon": (
        _job(State.PENDING, OLD, options=FIRST.as_json()),
        Wanted(OLD, "/two"),
        Action.WAIT,
        "already pending",
    ),
    "options nobody understands": (
        _job(State.PENDING, OLD, options={"odd": 1}),
        Wanted(OLD, "/one", FIRST),
        Action.WAIT,
        "already pending; now with the settings and the output folder of this command",
    ),
}


@pytest.mark.parametrize(("job", "wanted", "action", "why"), TABLE.values(), ids=TABLE)
def test_why(job: JobSummary | None, wanted: Wanted, action: Action, why: str) -> None:
    video = _planned(job, OLD, wanted)
    assert (video.action, video.why) == (action, why)


def test_a_limit_counts_what_needs_work_only() -> None:
    names = [f"{number}.mp4" for number in range(6)]
    done = {f"/games/{name}": _job(State.SUCCEEDED, OLD, subject=f"/games/{name}") for name in names[:2]}
    known = Known({f"/games/{name}": str(_found(name).signature) for name in names}, done, {OLD.config_hash: OLD})
    planned = plan(Scan(ROOT, tuple(map(_found, names)), (), {}), known, Wanted(OLD, "/one"))
    limited = planned.limited(3)
    assert [video.found.path.name for video in limited.to_run] == names[2:5]
    assert (len(limited.videos), limited.left_out) == (5, 1)
    assert planned.limited(None) is planned


def test_a_setting_that_goes_back_to_what_its_key_leaves_out_is_a_change() -> None:
    plain = _recipe(threshold=0.1)
    librosa = Recipe({**plain.settings, "energy": {"energy.engine": "librosa"}}, VERSIONS)
    there = changes(plain, librosa)
    back = changes(librosa, plain)
    assert there["energy"] == "energy.engine streaming -> librosa"
    assert back["energy"] == "energy.engine librosa -> streaming"
    assert set(there) == set(back) == {"energy", "detections", "montage"}

"""Damaged recordings among whole ones: each is named, none delays another, and every montage decodes cleanly."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import av
import pytest

from content_pipeline.errors import FileInUse
from content_pipeline.execution.outcome import Outcome
from content_pipeline.media.ffmpeg import ffmpeg_exe
from content_pipeline.media.render.render_mode import choose_mode
from content_pipeline.media.source import Source
from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.helpers import mutants, samples
from content_pipeline_tests.helpers.chaos import by_size
from content_pipeline_tests.helpers.processing import Project

ENDINGS = "mp4,mov,mkv,webm,avi,ts,flv"
VERDICTS = {None, "corrupt_media", "not_a_video", "no_picture", "no_audio", "limit_exceeded"}
MUTANTS = by_size(16, 500)
BAD, GOOD = by_size((3, 4), (5, 20))


def complaint(path: str) -> str:
    """What a strict decode of a file says, by the binary and by the library; nothing for a clean one."""
    strict = ["-nostdin", "-v", "error", "-xerror", "-err_detect", "explode", "-i", path, "-f", "null", "-"]
    done = subprocess.run([ffmpeg_exe(), *strict], capture_output=True, text=True, check=False)
    if done.returncode or done.stderr:
        return done.stderr.strip() or f"exit code {done.returncode}"
    try:
        with av.open(path) as container:
            for packet in container.demux():
                packet.decode()
    except av.error.FFmpegError as error:
        return str(error)
    return ""


def _montage(outputs: list[str]) -> str | None:
    return next((path for path in outputs if path.endswith(".mp4")), None)


@pytest.mark.timeout(by_size(300, 7200))
def test_a_damaged_recording_gives_a_clean_montage_or_a_verdict(project: Project, samples_folder: Path) -> None:
    wholes = mutants.recordings(samples_folder)
    made = {path.name for path in mutants.make(project.library, wholes, MUTANTS)}
    outcomes = project.process(library__extensions=ENDINGS, queue__max_attempts=1)
    assert set(outcomes) == made
    assert {name: outcome.error for name, outcome in outcomes.items() if outcome.error_code not in VERDICTS} == {}
    montages = {name: path for name, outcome in outcomes.items() if (path := _montage(list(outcome.outputs)))}
    assert {name: said for name, path in montages.items() if (said := complaint(path))} == {}
    assert montages


def test_damage_that_can_be_hidden_is_encoded_and_told(tmp_path: Path, samples_folder: Path) -> None:
    whole = samples.recording(samples_folder, "plain.mp4", seconds=6, bursts=((1.5, 2.5), (4.0, 4.6)))
    (tmp_path / "library").mkdir()
    data = bytearray(whole.read_bytes())
    with av.open(str(whole)) as container:
        packet = [packet for packet in container.demux(video=0) if packet.size and not packet.is_keyframe][60]
        assert packet.pos is not None
        data[packet.pos + packet.size // 2] ^= 0xFF
        data[packet.pos + packet.size // 2 + 1] ^= 0xFF
    (tmp_path / "library" / "scratched.mp4").write_bytes(data)
    done = content_ai("process", "-i", "library", "--json", cwd=tmp_path)
    (row,) = json.loads(done.stdout)["videos"]
    assert row["status"] == "succeeded", row
    document = json.loads(Path(next(path for path in row["outputs"] if path.endswith(".json"))).read_text())
    assert document["mode"] == "encode"
    assert document["reason"].startswith("Encoding, because the recording is damaged: ")
    assert complaint(_montage(row["outputs"]) or "") == ""


def _with_broken_header(whole: Path, target: Path) -> None:
    """The length of the first parameter set in `avcC`, with one byte flipped."""
    data = bytearray(whole.read_bytes())
    data[data.index(b"avcC") + 4 + 6] ^= 0x8E
    target.write_bytes(data)


def test_a_flipped_byte_in_the_header_of_the_pictures_is_corrupt_media_and_pauses_nothing(
    tmp_path: Path, samples_folder: Path
) -> None:
    whole = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
    library = tmp_path / "library"
    library.mkdir()
    for number in range(6):
        _with_broken_header(whole, library / f"a-broken-{number}.mp4")
        with (library / f"a-broken-{number}.mp4").open("ab") as file:
            file.write(b"\0\0\0\x08free" * (number + 1))  # each a video of its own
    for number in range(2):
        shutil.copy(whole, library / f"whole-{number}.mp4")
    done = content_ai("process", "-i", library, "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    verdicts = {Path(row["path"]).name: (row["status"], row["error_code"]) for row in document["videos"]}
    assert verdicts == {
        **{f"a-broken-{number}.mp4": ("failed", "corrupt_media") for number in range(6)},
        **{f"whole-{number}.mp4": ("succeeded", None) for number in range(2)},
    }
    assert document["paused"] == []


@pytest.mark.parametrize("ending", by_size(("mp4", "flv"), ("mp4", "mov", "mkv", "webm", "avi", "ts", "flv")))
@pytest.mark.timeout(by_size(300, 1200))
def test_bad_files_among_good_ones_delay_none_of_them(ending: str, project: Project, samples_folder: Path) -> None:
    """The bad ones are first in the queue."""
    whole = next(path for path in mutants.recordings(samples_folder) if path.name == f"plain.{ending}")
    list(mutants.make(project.library, [whole], BAD))
    for number in range(GOOD):
        shutil.copy(whole, project.library / f"whole-{number:02}.{ending}")
        with (project.library / f"whole-{number:02}.{ending}").open("ab") as file:
            file.write(bytes(number))
    outcomes = project.process(library__extensions=ENDINGS)
    assert {outcome.error_code for outcome in outcomes.values()} <= VERDICTS
    _assert_undelayed(project, outcomes)


def test_a_bug_that_some_recordings_meet_delays_none_of_the_others(
    project: Project, samples_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors without a name, five in a row and more, before the first whole recording has its turn."""
    whole = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
    for name in [*(f"a-bad-{number}.mp4" for number in range(6)), "whole-0.mp4", "whole-1.mp4"]:
        shutil.copy(whole, project.library / name)
        with (project.library / name).open("ab") as file:
            file.write(name.encode())

    def buggy(source: Source, *given: object) -> object:
        return {"a": 1}["a bug"] if "bad" in source.path.name else choose_mode(source, *given)  # type: ignore[arg-type]

    monkeypatch.setattr("content_pipeline.stages.montage.choose_mode", buggy)  # children are forked: they have it too
    outcomes = project.process(workers=1, queue__max_attempts=1)
    bad = [outcome for name, outcome in outcomes.items() if "bad" in name]
    assert {(outcome.status, outcome.error_code) for outcome in bad} == {("failed", "internal_error")}
    _assert_undelayed(project, outcomes)


def test_a_whole_recording_that_must_wait_a_moment_is_not_left_behind_with_the_bad_ones(
    project: Project, samples_folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """When it is tried again nothing else is left but bad files, whose retries are paused."""
    whole = samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),))
    for name in [*(f"a-bad-{number}.mp4" for number in range(5)), "whole.mp4"]:
        shutil.copy(whole, project.library / name)
        with (project.library / name).open("ab") as file:
            file.write(name.encode())
    tries = tmp_path / "tries"
    tries.write_text("")

    def buggy(source: Source, *given: object) -> object:
        if "bad" in source.path.name:
            return {"a": 1}["a bug"]
        tries.write_text(tries.read_text() + "x")
        if len(tries.read_text()) <= 3:  # once, and twice more in the same run
            raise FileInUse("it is still being copied")
        return choose_mode(source, *given)  # type: ignore[arg-type]

    monkeypatch.setattr("content_pipeline.stages.montage.choose_mode", buggy)
    monkeypatch.setattr("content_pipeline.manifest.retry_policy.BASE_DELAY_S", 1.0)
    outcomes = project.process(workers=1, queue__max_attempts=2)
    assert outcomes["whole.mp4"].status == "succeeded"
    bad = [outcome for name, outcome in outcomes.items() if "bad" in name]
    assert {(outcome.status, outcome.error_code) for outcome in bad} == {("failed", "internal_error")}


def _assert_undelayed(project: Project, outcomes: dict[str, Outcome]) -> None:
    whole = {name: outcome for name, outcome in outcomes.items() if name.startswith("whole")}
    assert {outcome.status for outcome in whole.values()} == {"succeeded"}
    manifest = project.manifest()
    assert [breaker for breaker in manifest.breakers.all() if breaker.until is not None] == []
    attempts = {Path(job.subject).name: len(manifest.jobs.attempts(job.job_id)) for job in manifest.jobs.list()}
    assert {attempts[name] for name in whole} == {1}

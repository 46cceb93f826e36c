"""Every awkward file comes to the end its table says, and a good one beside them is processed."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from content_pipeline_tests.acceptance.test_cli import content_ai

WORKS = {
    "container.avi", "container.mkv", "container.webm", "container.ts", "vfr.mp4", "frag.mp4", "moov_end.mp4",
    "long_gop.mp4", "open_gop_bframes.mkv", "hevc.mp4", "odd_size_yuv444.mp4", "rotated90.mp4", "offset_audio.mp4",
    "start_pts_1h.mkv", "mono_22k.mp4", "surround51_48k.mp4", "two_audio.mp4", "very_quiet.mp4", "clipped_loud.mp4",
}  # fmt: skip
NO_HIGHLIGHTS = {"silent_audio.mp4", "one_frame.mp4"}
FAILS = {
    "no_audio.mp4": "no_audio",
    "audio_only.m4a": "no_picture",
    "truncated_50.mp4": "corrupt_media",
    "moov_cut.mp4": "corrupt_media",
    "bitrot.mp4": "corrupt_media",
    "zero_bytes.mp4": "not_a_video",
    "text.mp4": "not_a_video",
    "random.mp4": "not_a_video",
    "png.mp4": "not_a_video",
    "hls_http.mp4": "hostile_container",
    "hls_localvideo.mp4": "hostile_container",
    "hls_passwd.mp4": "hostile_container",
    "hls_subtitle_xbin.mp4": "hostile_container",
    "ffconcat.mp4": "hostile_container",
    "dash.mp4": "hostile_container",
    "sdp.mp4": "hostile_container",
}


@pytest.fixture(scope="module")
def rows(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict]:
    folder = tmp_path_factory.mktemp("awkward")
    shutil.copytree(footage / "awkward", folder / "library")
    shutil.copy(footage / "gameplay" / "base_40s.mp4", folder / "library")
    done = content_ai("process", "-i", "library", "--ext", "mp4,mkv,avi,webm,ts,m4a", "--json", cwd=folder)
    assert done.returncode == 3, done.stderr
    return {Path(row["path"]).name: row for row in json.loads(done.stdout)["videos"]}


def test_no_file_is_forgotten(rows: dict[str, Any]) -> None:
    assert set(rows) == WORKS | NO_HIGHLIGHTS | set(FAILS) | {"base_40s.mp4"}


@pytest.mark.parametrize("name", sorted(WORKS | {"base_40s.mp4"}))
def test_a_readable_file_becomes_a_montage(rows: dict[str, Any], name: str) -> None:
    row = rows[name]
    assert row["status"] == "succeeded", row
    assert row["highlights"] >= 1
    assert any(path.endswith(".mp4") for path in row["outputs"])


@pytest.mark.parametrize("name", sorted(NO_HIGHLIGHTS))
def test_silence_is_a_success_without_montage(rows: dict[str, Any], name: str) -> None:
    row = rows[name]
    assert (row["status"], row["highlights"]) == ("succeeded", 0)
    assert [Path(output).name for output in row["outputs"]] == [f"{Path(name).stem}.plot.png"]


@pytest.mark.parametrize("name", sorted(FAILS))
def test_what_cannot_be_read_is_named(rows: dict[str, Any], name: str) -> None:
    row = rows[name]
    assert (row["status"], row["error_code"]) == ("failed", FAILS[name])
    assert name in row["error"]
    assert row["outputs"] == []


def test_the_track_with_the_sound_is_found_and_told(rows: dict[str, Any]) -> None:
    assert rows["two_audio.mp4"]["audio_track"] == 1


def test_hostile_names_are_plain_files(footage: Path, tmp_path: Path) -> None:
    library = tmp_path / "library"
    subprocess.run(["bash", footage / "awkward_names", library], check=True)
    done = content_ai("process", "-i", library, "--json", cwd=tmp_path)
    document = json.loads(done.stdout)
    failed = {Path(row["path"]).name: row["error_code"] for row in document["videos"] if row["status"] == "failed"}
    assert failed == {"symlink_outside.mp4": "unsafe_path"}
    assert document["totals"]["succeeded"] == 13
    assert document["totals"]["passed_over"] == 2
    assert len({row["key"] for row in document["videos"] if row["status"] == "succeeded"}) == 1
    assert not list(tmp_path.rglob("pwned"))

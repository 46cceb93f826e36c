"""Publishing into a folder where people work too: what is theirs is never lost, whatever happens when."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from content_pipeline.artifacts import Artifact, ArtifactStore
from content_pipeline.errors import LostLease
from content_pipeline.manifest.database import open_engine
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import ClaimRequest, JobRequest
from content_pipeline.publishing import publish as publishing
from content_pipeline.publishing import replace_file as replacing
from content_pipeline.publishing.names import Name
from content_pipeline.publishing.publish import Published, pieces_of, publish, recover_outputs
from content_pipeline.publishing.sidecar import is_montage
from content_pipeline.settings import load
from content_pipeline.stages.context import StageContext
from content_pipeline.system import filesystem
from content_pipeline.system.hashing import sha256_of

ENDINGS = {"montage.mp4": ".mp4", "montage.json": ".json", "sheet.jpg": ".sheet.jpg"}
OWNER = "game-0123456789"
WHY = "no highlights"


@dataclass
class Desk:
    """A state folder and an output folder; what is published is told by a word."""

    folder: Path
    name: Name = field(default_factory=lambda: Name("game", OWNER))
    owner: str = OWNER

    def __post_init__(self) -> None:
        self.output = self.folder / "output"
        self.artifacts = ArtifactStore(self.folder / "artifacts", patience_s=0.1)
        self.manifest = Manifest(open_engine(f"sqlite:///{self.folder}/queue.db"))
        self.records = self.manifest.publications

    def context(self, output: Path | None = None) -> StageContext:
        flags = {"state_dir": self.folder / "state", "output_dir": output or self.output}
        videos = self.manifest.videos
        return StageContext(load(flags=flags, env={}).settings, self.artifacts, videos, self.records)

    def made(self, word: str) -> Artifact:
        key = word.encode().hex().ljust(64, "0")
        if (found := self.artifacts.find("montage", key)) is None:
            with self.artifacts.draft("montage", key) as draft:
                draft.write_bytes("montage.mp4", f"montage {word}".encode())
                draft.write_json("montage.json", {"cuts": [word], "duration_s": 1, "mode": "copy"})
                draft.write_bytes("sheet.jpg", f"sheet {word}".encode())
        found = self.artifacts.find("montage", key)
        assert found is not None
        return found

    def publish(self, word: str | None, output: Path | None = None) -> Published:
        pieces = [] if word is None else pieces_of(self.owner, ENDINGS, self.made(word))
        return publish(self.context(output).outputs, self.owner, self.name, pieces, WHY)

    def files(self) -> dict[str, str]:
        found = {path.name: path.read_text() for path in self.output.iterdir()} if self.output.is_dir() else {}
        return {name: json.loads(text)["cuts"][0] if "made_by" in text else text for name, text in found.items()}


def group(base: str, word: str) -> dict[str, str]:
    return {f"{base}.mp4": f"montage {word}", f"{base}.json": word, f"{base}.sheet.jpg": f"sheet {word}"}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_what_nobody_touched_is_replaced_and_taken_back(desk: Desk) -> None:
    first = desk.publish("one")
    assert desk.files() == group("game", "one")
    assert [path.name for path in first.written] == ["game.mp4", "game.json", "game.sheet.jpg"]
    assert desk.publish("one").written == ()
    again = desk.publish("two")
    assert desk.files() == group("game", "two")
    assert again.notes == ()
    gone = desk.publish(None)
    assert desk.files() == {}
    assert desk.records.all() == []
    (note,) = gone.notes
    assert note.startswith(f"removed {desk.output / 'game.json'}, ") and note.endswith(WHY)


@pytest.mark.parametrize("then", ["one", "two"])
def test_a_montage_that_a_person_replaced_stays_and_the_new_one_gets_another_name(desk: Desk, then: str) -> None:
    desk.publish("one")
    (desk.output / "game.mp4").write_text("my edit")
    published = desk.publish(then)
    assert desk.files() == {"game.mp4": "my edit", **group("game (2)", then)}
    assert published.notes[0] == (
        f"kept {desk.output / 'game.mp4'}: it was changed since it was published; "
        f"the new one is {desk.output / 'game (2).mp4'}"
    )
    before = desk.files()
    assert desk.publish(then).written == (), "no third one"
    desk.publish("three")
    assert desk.files() == {"game.mp4": "my edit", **group("game (2)", "three")}
    desk.publish(then)
    assert desk.files() == before
    assert desk.publish(None).notes[0].startswith("removed ")
    assert desk.files() == {"game.mp4": "my edit"}
    assert desk.publish(None).notes == ()
    desk.publish("one")
    assert desk.files() == {"game.mp4": "my edit", **group("game (2)", "one")}


def test_a_montage_that_a_person_replaced_is_not_deleted_when_nothing_is_found(desk: Desk) -> None:
    desk.publish("one")
    (desk.output / "game.mp4").write_text("my edit")
    notes = desk.publish(None).notes
    assert desk.files() == {"game.mp4": "my edit"}
    assert f"kept {desk.output / 'game.mp4'}: it was changed since it was published; {WHY}" in notes


def test_side_cars_are_looked_at_one_by_one(desk: Desk) -> None:
    desk.publish("one")
    (desk.output / "game.json").write_text("my notes")
    (desk.output / "game.sheet.jpg").write_text("my picture")
    desk.publish("two")
    expected = {
        "game.mp4": "montage two",
        "game.json": "my notes",
        "game (2).json": "two",
        "game.sheet.jpg": "my picture",
        "game (2).sheet.jpg": "sheet two",
    }
    assert desk.files() == expected
    assert desk.publish("two").written == ()
    assert is_montage(desk.output / "game.mp4"), "by the side-car that has a number"
    desk.publish(None)
    assert desk.files() == {"game.json": "my notes", "game.sheet.jpg": "my picture"}


def test_a_foreign_file_with_the_name_stays(desk: Desk) -> None:
    desk.output.mkdir()
    (desk.output / "game.mp4").write_text("a recording of mine")
    (desk.output / "game (2).mp4").mkdir()
    (desk.output / "game (3).mp4").symlink_to("game.mp4")
    published = desk.publish("one")
    assert (desk.output / "game (4).mp4").read_text() == "montage one"
    blocker, ours = desk.output / "game.mp4", desk.output / "game (4).mp4"
    assert published.notes == (f"kept {blocker}: it is not ours; the new one is {ours}",)
    desk.publish("two")
    desk.publish(None)
    assert sorted(os.listdir(desk.output)) == ["game (2).mp4", "game (3).mp4", "game.mp4"]


def test_a_link_that_a_person_put_in_place_stays(desk: Desk, tmp_path: Path) -> None:
    desk.publish("one")
    (desk.output / "game.mp4").rename(tmp_path / "archive.mp4")
    (desk.output / "game.mp4").symlink_to(tmp_path / "archive.mp4")
    desk.publish("two")
    assert (desk.output / "game.mp4").is_symlink()
    assert (desk.output / "game (2).mp4").read_text() == "montage two"


def test_after_the_manifest_was_lost_nothing_is_overwritten_but_what_we_hold(desk: Desk) -> None:
    desk.publish("one")
    desk.manifest.reset()
    assert desk.publish("one").written == (), "what we would publish is there: it is ours"
    assert len(desk.records.all()) == 3
    desk.manifest.reset()
    desk.publish("two")
    assert desk.files() == {**group("game", "one"), **group("game (2)", "two")}


def test_a_published_file_shares_nothing_with_the_cache_or_other_folders(desk: Desk, tmp_path: Path) -> None:
    desk.publish("one")
    desk.publish("one", tmp_path / "other")
    (tmp_path / "other" / "game.mp4").write_text("overwritten in place")
    assert desk.files() == group("game", "one")
    assert desk.artifacts.find("montage", desk.made("one").key) is not None
    assert {path.stat().st_nlink for path in desk.output.iterdir()} == {1}
    assert [one.detail.split()[0] for one in desk.manifest.check(hash_if_there)] == [
        str(tmp_path / "other" / "game.mp4")
    ]


@pytest.mark.parametrize("copy", [shutil.copy2, os.link])
def test_a_persons_own_copy_of_a_montage_serves_and_is_never_replaced(
    desk: Desk, tmp_path: Path, copy: Callable[[Path, Path], object]
) -> None:
    """Put in another folder before anything was published there."""
    desk.publish("one")
    other = replace(desk, folder=tmp_path)
    other.output = tmp_path / "mine"
    other.output.mkdir()
    copy(desk.output / "game.mp4", other.output / "game.mp4")
    inode = (other.output / "game.mp4").stat().st_ino

    first = other.publish("one", other.output)
    assert other.files() == group("game", "one")
    assert {path.name for path in first.written} == {"game.json", "game.sheet.jpg"}
    settled = desk.records.all()
    assert other.publish("one", other.output).written == () and desk.records.all() == settled

    (note,) = [one for one in other.publish("two", other.output).notes if one.startswith("kept ")]
    assert "it is not ours" in note
    assert other.files() == {"game.mp4": "montage one", **group("game (2)", "two")}
    other.publish("one", other.output)
    other.publish(None, other.output)
    assert other.files() == {"game.mp4": "montage one"}
    assert (other.output / "game.mp4").stat().st_ino == inode
    assert desk.files() == group("game", "one")


def test_what_a_person_changed_back_stays_theirs(desk: Desk) -> None:
    desk.publish("one")
    (desk.output / "game.mp4").write_text("my edit")
    desk.publish("two")
    desk.publish(None)
    (desk.output / "game.mp4").write_text("montage three")
    desk.publish("three")
    desk.publish("four")
    assert desk.files()["game.mp4"] == "montage three"


def test_a_hard_link_into_the_cache_is_replaced_by_a_copy(desk: Desk) -> None:
    desk.publish("one")
    for file, ending in (("montage.mp4", ".mp4"), ("sheet.jpg", ".sheet.jpg")):
        (desk.output / f"game{ending}").unlink()
        os.link(desk.made("one").path(file), desk.output / f"game{ending}")
    assert [path.name for path in desk.publish("one").written] == ["game.mp4", "game.sheet.jpg"]
    assert desk.files() == group("game", "one")
    assert {path.stat().st_nlink for path in desk.output.iterdir()} == {1}
    assert desk.artifacts.find("montage", desk.made("one").key) is not None


def test_the_check_looks_at_every_folder(desk: Desk, tmp_path: Path) -> None:
    desk.publish("one")
    desk.publish("two", tmp_path / "other")
    assert desk.manifest.check(hash_if_there) == []
    (desk.output / "game.sheet.jpg").unlink()
    (tmp_path / "other" / "game.json").write_text("mine")
    details = sorted(one.detail.partition(" ")[0] for one in desk.manifest.check(hash_if_there))
    assert details == sorted([str(desk.output / "game.sheet.jpg"), str(tmp_path / "other" / "game.json")])
    desk.publish("two", tmp_path / "other")
    desk.publish("two")
    assert desk.manifest.check(hash_if_there) == [], "what is known to be a person's is none of our business"


def hash_if_there(path: str) -> str | None:
    return sha256_of(Path(path)) if Path(path).exists() else None


def test_a_folder_under_another_name_is_the_same_folder(desk: Desk, tmp_path: Path) -> None:
    desk.publish("one")
    (tmp_path / "link").symlink_to(desk.output)
    for name in ("link", "output/../link", "output"):
        word = f"published in {name}"
        desk.publish(word, tmp_path / name)
        assert desk.files() == group("game", word)
        assert desk.manifest.check(hash_if_there) == []
        assert {row.path.parent for row in desk.records.all()} == {tmp_path / name}
    (desk.output / "game.mp4").write_text("my edit")
    desk.publish(None, tmp_path / "link")
    assert desk.files() == {"game.mp4": "my edit"}


# --- names


def test_two_videos_never_share_a_name(desk: Desk) -> None:
    desk.publish("one")
    other = replace(desk, name=Name("GAME", "game-9876543210"), owner="game-9876543210")
    other.publish("two")
    assert desk.files() == {**group("game", "one"), **group("game-9876543210", "two")}
    assert other.publish("two").written == ()
    other.publish("three")
    assert desk.files() == {**group("game", "one"), **group("game-9876543210", "three")}


def test_a_namesake_in_the_library_puts_the_key_in_the_name_but_not_afterwards(desk: Desk) -> None:
    desk.publish("one")
    desk.name = Name("game", OWNER, has_namesake=True)
    desk.publish("two")
    assert desk.files() == group("game", "two"), "a name that was given stays"
    desk.publish(None)
    desk.publish("two")
    assert desk.files() == group(OWNER, "two")


def test_a_name_of_the_former_kind_stays_until_there_is_another_montage(desk: Desk) -> None:
    desk.name = Name(OWNER, OWNER)
    desk.publish("one")
    desk.name = Name("game", OWNER)
    assert desk.publish("one").written == ()
    assert desk.files() == group(OWNER, "one")
    (note,) = desk.publish("two").notes
    assert desk.files() == group("game", "two")
    assert note.endswith("published as game.* now")


def test_a_renamed_recording_gives_its_next_montage_the_new_name(desk: Desk) -> None:
    desk.publish("one")
    desk.name = Name("boss fight", OWNER)
    assert desk.publish("one").written == ()
    desk.publish("two")
    assert desk.files() == group("boss fight", "two")


# --- at the same moment


@pytest.fixture(params=["exchange", "steps"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """On a file system where two files can change names, and on one where they cannot."""
    if request.param == "steps":

        def unsupported(one: Path, other: Path) -> None:
            raise filesystem.Unsupported

        monkeypatch.setattr(replacing, "exchange", unsupported)
    return str(request.param)


@pytest.mark.parametrize("point", ["staged", "announced", "exchanged"])
@pytest.mark.parametrize("how", ["replace", "write"])
def test_a_save_in_the_moment_of_replacing_is_kept(
    desk: Desk, way: str, point: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.publish("one")
    target = desk.output / "game.mp4"
    opened: list[Any] = []
    saved: list[Any] = []

    def save(reached: str) -> None:
        if how == "write" and reached == "announced" and not opened:
            opened.append(os.open(target, os.O_WRONLY))
        if reached != point or saved:
            return
        saved.append(point)
        if opened:  # into the file that was there, wherever it is now
            os.pwrite(opened[0], b"my edit and a half", 0)
            os.close(opened[0])
        else:
            (desk.output / "draft").write_text("my edit and a half")
            (desk.output / "draft").replace(target)

    for module in (publishing, replacing):
        monkeypatch.setattr(module, "failpoint", save)
    desk.publish("two")
    monkeypatch.undo()
    assert saved
    assert "my edit and a half" in desk.files().values()
    assert not [name for name in desk.files() if name.startswith(".")]
    desk.publish("two")
    expected = {"game.mp4": "my edit and a half", **group("game (2)", "two")}
    assert desk.files() == expected
    (montage,) = (one for one in desk.records.all() if one.file == "montage.mp4" and not one.kept)
    assert montage.size_bytes == len("montage two"), "recorded is what was published, not what came after"


def test_a_file_that_is_open_for_writing_is_a_persons(desk: Desk, way: str) -> None:
    desk.publish("one")
    with (desk.output / "game.mp4").open("r+b"):
        desk.publish("two")
    assert desk.files()["game.mp4"] == "montage one"
    assert desk.files()["game (2).mp4"] == "montage two"


def test_a_save_in_the_moment_of_removing_is_kept(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.publish("one")
    target = desk.output / "game.mp4"
    original = os.open(target, os.O_WRONLY)

    def save(point: str) -> None:
        if point == "taken_out" and not target.exists():
            os.pwrite(original, b"my edit and a half", 0)

    monkeypatch.setattr(replacing, "failpoint", save)
    desk.publish(None)
    os.close(original)
    assert desk.files() == {"game.mp4": "my edit and a half"}


class Killed(BaseException):
    pass


@pytest.mark.parametrize("theirs", [False, True], ids=["ours", "theirs"])
@pytest.mark.parametrize("point", ["staged", "announced", "exchanged", "taken_out"])
def test_a_kill_while_replacing_leaves_nothing_hidden_and_loses_nothing(
    desk: Desk, way: str, point: str, theirs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process of its own is killed there in the acceptance tests; here what is left is taken up by the next."""
    desk.publish("one")

    def die(reached: str) -> None:
        if reached == "announced" and theirs:
            (desk.output / "draft").write_text("my edit")
            (desk.output / "draft").replace(desk.output / "game.mp4")
        if reached == point:
            raise Killed

    for module in (publishing, replacing):
        monkeypatch.setattr(module, "failpoint", die)
    monkeypatch.setattr(Path, "unlink", lambda *_args, **_kwargs: None)  # nobody tidies up after a kill
    with pytest.raises(Killed):
        desk.publish(None if point == "taken_out" else "two")
    monkeypatch.undo()
    recover_outputs(desk.records, [desk.output])
    found = desk.files()
    assert not [name for name in found if name.startswith(".")]
    if theirs and point != "staged":
        assert "my edit" in found.values()
    desk.publish("three")
    expected = group("game", "three")
    if theirs and point != "staged":
        expected = {"game.mp4": "my edit", **group("game (2)", "three")}
    assert desk.files() == expected
    assert desk.manifest.check(hash_if_there) == []


@pytest.mark.parametrize(
    "name",
    [
        ".Holiday.2023.WEB-DL.part",
        ".notes.2024-01-02.old",
        ".notes.20240102-12-30.old",
        ".game.mp4.0-12-34.new",
        ".game.mp4.content-ai-draft.old",
        ".game.mp4.content-ai-99999999-1.part",
        ".content-ai-0-12-34.part",
    ],
)
def test_hidden_files_of_people_are_never_touched(desk: Desk, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replacing, "FORGOTTEN_S", -1.0)  # however old they are
    desk.output.mkdir()
    (desk.output / name).write_text("mine")
    recover_outputs(desk.records, [desk.output])
    desk.publish("one")
    desk.publish("two")
    assert desk.files() == {name: "mine", **group("game", "two")}


@pytest.mark.parametrize("mark", ["", "content-ai-"], ids=["earlier version", "now"])
@pytest.mark.parametrize("job", ["01JD0000000000000000000000-3-", "0123456789ab-0-"])
def test_what_was_interrupted_long_ago_is_cleared_up(
    desk: Desk, mark: str, job: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacing, "FORGOTTEN_S", -1.0)
    desk.publish("one")
    token = f"{mark}{job}0a1b2c3d-4321-99887766"
    (desk.output / f".game.mp4.{token}.part").write_text("half a mont")
    (desk.output / f".game.mp4.{token}.old").write_text("montage one")
    (desk.output / f".film.mp4.{token}.new").write_text("mine")
    assert recover_outputs(desk.records, [desk.output]) == [desk.output / "film.mp4"]
    assert desk.files() == {"film.mp4": "mine", **group("game", "one")}


def test_what_this_process_left_without_a_job_is_cleared_up_also_without_the_mark(desk: Desk) -> None:
    desk.output.mkdir()
    (desk.output / f".game.mp4.{replacing.token_of(None)}.part").write_text("half a mont")
    recover_outputs(desk.records, [desk.output])
    assert desk.files() == {}


def test_who_lost_the_lease_publishes_and_removes_nothing(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.manifest.jobs.enqueue([JobRequest("/games/a.mp4", "/games")])
    (late,) = desk.manifest.jobs.claim(ClaimRequest("late"))
    desk.publish("one")
    desk.records = desk.manifest.publications.under(late.lease)

    def lose(point: str) -> None:
        """Released, claimed again and published by a successor, while the late one is asleep."""
        if point == wanted:
            monkeypatch.undo()
            desk.manifest.jobs.release(late.lease, "asleep")
            (successor,) = desk.manifest.jobs.claim(ClaimRequest("successor"))
            mine = replace(desk)
            mine.records = desk.manifest.publications.under(successor.lease)
            mine.publish("one")
            desk.manifest.jobs.release(successor.lease, "done")

    for wanted, word in (("staged", "two"), ("announced", "two"), ("announced", None), ("taken_out", None)):
        for module in (publishing, replacing):
            monkeypatch.setattr(module, "failpoint", lose)
        with pytest.raises(LostLease):
            desk.publish(word)
        assert desk.files() == group("game", "one"), wanted
        (late,) = desk.manifest.jobs.claim(ClaimRequest("late"))
        desk.records = desk.manifest.publications.under(late.lease)


# --- recordings are told from montages


def test_a_montage_is_known_by_its_side_car_alone(desk: Desk, tmp_path: Path) -> None:
    desk.publish("one")
    shutil.copytree(desk.output, tmp_path / "moved")
    montage = tmp_path / "moved" / "game.mp4"
    assert is_montage(montage)
    montage.write_text("something longer than the montage was")
    assert not is_montage(montage)
    (tmp_path / "moved" / "game.json").write_text("[" * 100_000)
    assert not is_montage(montage)
    former = tmp_path / "moved" / "game-0123456789.mp4"
    former.write_text("montage")
    former.with_suffix(".json").write_text('{"cuts": [], "duration_s": 1.0, "mode": "copy"}')
    assert is_montage(former), "by what an earlier version wrote"
    assert not is_montage(tmp_path / "recording.mp4")

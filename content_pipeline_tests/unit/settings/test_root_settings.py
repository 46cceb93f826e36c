from pathlib import Path

import pytest

from content_pipeline.errors import BadSettings, StorageMismatch
from content_pipeline.services.configuration import show
from content_pipeline.settings import Settings, load
from content_pipeline.settings.job_options import JobOptions


def test_a_root_is_named_in_the_file_or_in_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text('[roots]\nnas = "/mnt/nas"\nold_disk = "/mnt/old"\n')
    resolved = load(config_file=file, env={"CONTENT_AI_ROOTS__OLD_DISK": "/media/old"})
    assert resolved.settings.roots.folders == {"nas": Path("/mnt/nas"), "old_disk": Path("/media/old")}
    assert resolved.origins["roots.old_disk"] == "environment"
    shown = show(load({"state_dir": tmp_path, "roots.nas": "/mnt/nas"}, env={}))
    assert shown.settings["roots.nas"].value == "/mnt/nas"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"roots.nas": "mnt/nas"}, "absolute folder"),
        ({"roots.nas": "/"}, "absolute folder"),
        ({"roots.nas": "/mnt/../nas"}, "absolute folder"),
        ({"roots.NAS": "/mnt/nas"}, "unknown setting"),
        ({"roots.a/b": "/mnt/nas"}, "unknown setting"),
        ({"roots.nas.more": "/mnt/nas"}, "unknown setting"),
        ({f"roots.{'n' * 41}": "/mnt/nas"}, "small letters"),
        ({"roots.a": "/mnt/nas", "roots.b": "/mnt/nas"}, "must not lie in each other"),
        ({"roots.a": "/mnt/nas", "roots.b": "/mnt/nas/games"}, "must not lie in each other"),
    ],
)
def test_what_could_be_mistaken_is_refused(flags: dict[str, str], said: str) -> None:
    with pytest.raises(BadSettings, match=said):
        load(flags, env={})


def test_settings_with_other_roots_are_other_settings() -> None:
    """They are kept by their value: what was prepared with one must not be found with another."""
    one, other = (load({"roots.nas": folder}, env={}).settings for folder in ("/a", "/b"))
    assert one != other and one != Settings()
    assert len({one, other, Settings()}) == 3


def test_outputs_are_never_put_into_a_folder_named_like_a_root() -> None:
    with pytest.raises(StorageMismatch, match="root:nas/out is not mapped"):
        JobOptions("root:nas/out", {}).onto(Settings())

"""Every error has a code, a hint and a row in the guide."""

import errno
from pathlib import Path
from typing import Any

import pytest

from content_pipeline import errors
from content_pipeline.system.child_process import ChildDied

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide.md"


def leaves(kind: type[errors.PipelineError] = errors.PipelineError) -> list[type[errors.PipelineError]]:
    subclasses = kind.__subclasses__()
    return [kind] if not subclasses else [leaf for sub in subclasses for leaf in leaves(sub)]


def test_codes_are_unique_and_hints_are_there() -> None:
    codes = [kind.code for kind in leaves()]
    assert len(codes) == len(set(codes)) > 15
    assert all(kind.hint for kind in leaves())


@pytest.mark.parametrize("kind", [*leaves(), errors.PipelineError], ids=lambda kind: kind.code)
def test_the_guide_tells_what_each_code_means(kind: type[errors.PipelineError]) -> None:
    assert f"`{kind.code}`" in GUIDE.read_text()


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOENT, "missing_file"),
        (errno.EACCES, "no_permission"),
        (errno.ENOSPC, "disk_full"),
        (errno.EIO, "read_failed"),
    ],
)
def test_errors_of_the_system_get_a_name(number: Any, code: str) -> None:
    assert errors.from_os_error(OSError(number, "x"), Path("a")).code == code


def test_the_death_of_a_helper_process_is_worth_another_try() -> None:
    named = errors.named(ChildDied("a helper process died"))
    assert isinstance(named, errors.WorkerCrashed)
    assert named.policy is errors.RetryPolicy.TRANSIENT


@pytest.mark.parametrize("name", ["new\nline", "\x1b[31mred", "caf\udce9", "‮rtl", "ok é 日本"])
def test_paths_are_printed_as_one_harmless_line(name: str) -> None:
    text = errors.printable(name)
    assert text.isprintable()
    text.encode("utf-8")

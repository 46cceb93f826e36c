"""The map in a package's docstring names every file and sub-package of it, and none that is gone."""

import re
from pathlib import Path

import pytest

import content_pipeline

PACKAGE = Path(content_pipeline.__file__).parent
ROOMS = [path.parent for name in ("media", "system") for path in sorted((PACKAGE / name).rglob("__init__.py"))]
ROOMS += [
    PACKAGE / name
    for name in (
        "execution",
        "launchers",
        "launchers/local",
        "launchers/rq",
        "dagster_runtime",
        "services",
        "cli",
        "defs/sensors",
    )
]


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: str(room.relative_to(PACKAGE)))
def test_the_map_of_a_room_names_what_is_in_it(room: Path) -> None:
    listed = re.findall(r"^- `([\w/.]+)`: ", (room / "__init__.py").read_text(), re.MULTILINE)
    files = [path.name for path in room.glob("*.py") if path.name != "__init__.py"]
    folders = [f"{path.parent.name}/" for path in room.glob("*/__init__.py")]
    assert sorted(listed) == sorted(files + folders)

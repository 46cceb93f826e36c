"""Folders of shared storage by name: what every host calls alike, and where this host has mounted it."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator

from content_pipeline.settings.value_types import UserPath

SECTION = "roots"
ANY_ROOT = "roots.NAME"
ROOTS_DESCRIPTION = (
    "Where this host has mounted the shared storage that all hosts call `NAME`: paths below it are stored by that "
    "name. Made known once with `content-ai roots add NAME`."
)
# As part of an environment variable, too: there `__` separates, and letters have no case.
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", re.ASCII)
MOST_LETTERS = 40


class RootSettings(BaseModel):
    """Any name with its folder: `nas = "/mnt/nas"`."""

    model_config = ConfigDict(extra="allow", frozen=True, hide_input_in_errors=True)
    __pydantic_extra__: dict[str, UserPath]

    @property
    def folders(self) -> dict[str, Path]:
        return dict(self.__pydantic_extra__)

    @model_validator(mode="after")
    def _tell_apart(self) -> Self:
        for name, folder in self.folders.items():
            if not _NAME.fullmatch(name) or len(name) > MOST_LETTERS:
                raise ValueError(f"a root is named with small letters, digits and single `_`, not {name!r}")
            if not folder.is_absolute() or folder == Path("/") or ".." in folder.parts:
                raise ValueError(f"the root `{name}` has to be an absolute folder below `/`, not {str(folder)!r}")
        for (one, here), (other, there) in combinations(self.folders.items(), 2):
            if here.is_relative_to(there) or there.is_relative_to(here):
                raise ValueError(f"the roots `{one}` and `{other}` must not lie in each other")
        return self


def is_root(key: str) -> bool:
    """Whether `section.key` names a root."""
    section, _, name = key.partition(".")
    return section == SECTION and _NAME.fullmatch(name) is not None

"""No operation on jobs is left out of waiting for a database that is away, whichever file its verb is in."""

import inspect
from pathlib import Path

import pytest

from content_pipeline.errors import DatabaseAway
from content_pipeline.manifest.jobs import Jobs
from content_pipeline.manifest.storage_roots import NO_ROOTS

OPERATIONS = [name for name, _ in inspect.getmembers(Jobs, inspect.isfunction) if not name.startswith("_")]


class AwayOnce:
    """A database that does not answer the first time, and is not meant to be asked a third time."""

    retry_s = 5.0
    roots = NO_ROOTS

    def __init__(self) -> None:
        self.asked = 0

    def transaction(self) -> None:
        self.asked += 1
        raise DatabaseAway("away") if self.asked == 1 else NotImplementedError

    connect = transaction


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_on_jobs_is_tried_again_while_the_database_is_away(name: str) -> None:
    database = AwayOnce()
    jobs = Jobs(database, lambda: 0.5, 90.0)  # type: ignore[arg-type]
    operation = getattr(jobs, name)
    needed = [
        parameter
        for parameter in inspect.signature(operation).parameters.values()
        if parameter.default is inspect.Parameter.empty
    ]
    # What is asked does not matter: the database is asked first. A path and a list of them are looked at before.
    given = [_value(parameter.annotation) for parameter in needed]
    with pytest.raises(NotImplementedError):
        operation(*given)
    assert database.asked == 2


def _value(annotation: str) -> object:
    values: dict[str, object] = {"Path": Path("/library"), "Sequence[Path]": [Path("/library/a.mp4")], "str": "01"}
    values["Collection[str]"] = ["01"]
    return values.get(annotation)


def test_the_verbs_of_all_parts_are_there() -> None:
    assert {"enqueue", "claim", "renew", "succeed", "cancel", "rescue", "get"} <= set(OPERATIONS)

"""What a child says, folded into one record."""

from __future__ import annotations

import pickle

import pytest

from content_pipeline.errors import CorruptMedia, PipelineError, RetryPolicy
from content_pipeline.execution.child_report import ChildReport
from content_pipeline.execution.messages import (
    Alive,
    Failed,
    Failure,
    Identified,
    Message,
    Outdated,
    Progress,
    Results,
    RunStarted,
    RunStatus,
    StageFinished,
    StageRecalled,
    WorkEnded,
)

FAILURE = Failure("corrupt_media", "half of it is missing", RetryPolicy.PERMANENT, "Copy it again.", "energy")
ENERGY = StageFinished(
    "energy", "k1", False, {"track": 1}, {"/a": "sha"}, ("/a",), ("kept",), {"wall_s": 1.0, "reused": False}, "hash"
)
MESSAGES: list[Message] = [
    Identified("game-0123456789", 100),
    RunStarted("run"),
    Progress("energy", 0.25),
    Alive(),
    ENERGY,
    StageRecalled("fingerprint", "k0"),
    Results({"value": 100}),
    Outdated("it is another video"),
    Failed(FAILURE),
    WorkEnded(RunStatus.SUCCEEDED, "quick", "full", {"/a": [1, 2]}),
]


def told(*messages: Message) -> ChildReport:
    report = ChildReport("fingerprint")
    for message in messages:
        report = report.after(message)
    return report


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message: Message) -> None:
    assert pickle.loads(pickle.dumps(message)) == message


def test_every_message_but_a_sign_of_life_leaves_its_mark() -> None:
    marks = {type(message).__name__: told(message) != told() for message in MESSAGES}
    assert marks == {type(message).__name__: not isinstance(message, Alive) for message in MESSAGES}


def test_a_report_knows_what_was_made_and_what_was_found_done() -> None:
    report = told(StageRecalled("fingerprint", "k0"), Identified("game", 100), ENERGY)
    assert report.stage_keys == {"fingerprint": "k0", "energy": "k1"}
    assert report.stages == {"fingerprint": "reused", "energy": "computed"}
    assert report.cost == {"energy": {"wall_s": 1.0, "reused": False, "bytes": 100}}
    assert (report.config_hash, report.facts, report.latest) == ("hash", {"track": 1}, ENERGY)


def test_a_stage_that_is_done_again_after_it_was_recalled_counts_as_it_was_done() -> None:
    assert told(StageRecalled("energy", "old"), ENERGY).stage_keys == {"energy": "k1"}


@pytest.mark.parametrize(
    ("messages", "succeeded"),
    [
        ((), False),
        ((WorkEnded(RunStatus.SUCCEEDED),), True),
        ((WorkEnded(RunStatus.CANCELLED),), False),
        ((WorkEnded(RunStatus.FAILED),), False),
        ((Failed(FAILURE), WorkEnded(RunStatus.SUCCEEDED)), False),
    ],
)
def test_success_is_an_end_that_is_told_and_no_failure(messages: tuple[Message, ...], succeeded: bool) -> None:
    assert told(*messages).succeeded is succeeded


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (
            CorruptMedia("bad", hint="Do this."),
            Failure("corrupt_media", "bad", RetryPolicy.PERMANENT, "Do this.", "energy"),
        ),
        (
            ZeroDivisionError("by zero"),
            Failure(
                "internal_error",
                "ZeroDivisionError: by zero",
                RetryPolicy.TRANSIENT,
                PipelineError.hint,
                "energy",
            ),
        ),
    ],
)
def test_a_failure_keeps_the_code_the_policy_and_the_hint_of_its_error(error: Exception, failure: Failure) -> None:
    assert Failure.of(error, "energy") == failure

"""The rules that the suite holds itself to."""

import subprocess
import sys
from pathlib import Path

import pytest

LOGS_AN_ERROR = """
import logging
import pytest
from content_pipeline_tests.conftest import _no_unexpected_errors

{marker}
def test_that_logs_an_error():
    logging.getLogger("content_pipeline.anything").error("on purpose")
"""


@pytest.mark.parametrize(("marker", "passes"), [("", False), ("@pytest.mark.expected_errors", True)])
def test_an_error_in_the_log_fails_a_test_that_does_not_expect_it(tmp_path: Path, marker: str, passes: bool) -> None:
    (tmp_path / "test_it.py").write_text(LOGS_AN_ERROR.format(marker=marker))
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) is passes, done.stdout
    assert passes or "content_pipeline.anything: on purpose" in done.stdout

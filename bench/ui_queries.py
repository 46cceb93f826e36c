"""The queries that Dagster's UI sends for its pages, as the installed UI has them, and how long each takes here."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import dagster as dg
import dagster_webserver
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import InProcessWorkspaceLoadTarget
from dagster_graphql.test.utils import execute_dagster_graphql

from content_pipeline.dagster_runtime.private_api import MODULE
from content_pipeline.stage import VIDEO_STAGES

BUILD = Path(str(dagster_webserver.__file__)).parent / "webapp" / "build"
TRIES = 9


class Page(NamedTuple):
    """A page of the UI: the constant that holds its query, and what the query is asked with."""

    name: str
    constant: str
    variables: Mapping[str, Any]


PAGES = (
    Page(
        "asset graph",
        "ASSETS_GRAPH_LIVE_QUERY",
        {"assetKeys": [{"path": [stage]} for stage in VIDEO_STAGES]},
    ),
    Page("partitions of an asset", "PARTITION_HEALTH_QUERY", {"assetKey": {"path": ["montage"]}}),
    Page("runs", "RUNS_FEED_ROOT_QUERY", {"limit": 30, "view": "ROOTS"}),
)


def seconds_of_pages(instance: dg.DagsterInstance) -> dict[str, float]:
    """The fastest of some tries of each page's query, through the resolvers that the webserver calls."""
    here = InProcessCodeLocationOrigin(LoadableTargetOrigin(module_name=MODULE), location_name="content_pipeline")
    with WorkspaceProcessContext(instance, InProcessWorkspaceLoadTarget(here)) as process:
        return {page.name: min(_tries(process, page)) for page in PAGES}


def _tries(process: WorkspaceProcessContext, page: Page) -> Iterator[float]:
    query = query_named(page.constant)
    for _ in range(TRIES):
        context = process.create_request_context()  # one for each request, as in the webserver
        started = time.perf_counter()
        answer = execute_dagster_graphql(context, query, dict(page.variables))
        yield time.perf_counter() - started
        assert not answer.errors, answer.errors


def query_named(constant: str) -> str:
    """A query of the UI with all the fragments that it names."""
    texts = _texts()
    wanted = _fragments(constant, texts)
    return "\n".join(re.sub(r"\$\{\w+\}", "", texts[name]) for name in wanted)


def _fragments(constant: str, texts: Mapping[str, str]) -> Sequence[str]:
    found = [constant]
    for name in found:  # grows as it is walked through
        found += [one for one in re.findall(r"\$\{(\w+)\}", texts[name]) if one not in found]
    return found


@cache
def _texts() -> Mapping[str, str]:
    """Every query and fragment in the sources that the UI is shipped with."""
    found: dict[str, str] = {}
    for path in BUILD.rglob("*.js.map"):
        for source in json.loads(path.read_text()).get("sourcesContent") or []:
            pairs = re.findall(r"const (\w+) = gql`(.*?)`", source or "", re.DOTALL)
            found |= {name: text for name, text in pairs if name not in found}
    return found

"""What is written down is true: commands, settings, links and files."""

import re
import shlex
import tomllib
from pathlib import Path

import click
import pytest
import yaml

from content_pipeline.cli.main import cli
from content_pipeline.cli.reference import reference, walk
from content_pipeline.settings import load

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_reference_is_up_to_date() -> None:
    assert (ROOT / "docs" / "reference.md").read_text() == reference(), "run `make docs`"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_in_the_docs_is_understood(page: Path) -> None:
    commands = dict(walk(cli, "content-ai"))
    blocks = re.findall(r"```bash\n(.*?)```", page.read_text(), re.DOTALL)
    lines = [line.split(" #")[0].split(">")[0].strip() for block in blocks for line in block.splitlines()]
    for line in lines:
        words = shlex.split(line)
        if not words or not words[0].endswith("content-ai"):
            continue
        words[0] = "content-ai"
        name = next(known for known in sorted(commands, key=len, reverse=True) if " ".join(words).startswith(known))
        arguments = words[len(name.split()) :]
        context = commands[name].make_context(name, list(arguments), resilient_parsing=False)
        assert context.params


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target, heading in re.findall(r"\]\((?!http)([^)#]*)#?([^)]*)\)", page.read_text()):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        assert not heading or heading in _headings(linked), f"{target}#{heading}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_module_that_is_named_exists(page: Path) -> None:
    """As a path from the root of the checkout, or from the package's folder."""
    named = set(re.findall(r"(?<![\w/.-])((?:[\w.-]+/)+[\w-]+\.py)\b", page.read_text()))
    folders = (ROOT, ROOT / "content_pipeline")
    assert {path for path in named if not any((folder / path).is_file() for folder in folders)} == set()


def _walks() -> list[str]:
    """The text of each walk."""
    return re.split(r"^## Walk \d", (ROOT / "docs" / "architecture.md").read_text(), flags=re.MULTILINE)[1:]


def test_every_hop_of_the_walks_is_a_function_of_its_file() -> None:
    package = ROOT / "content_pipeline"
    for text in _walks():
        hops = re.findall(r"^- `([\w/]+\.py): (\w+)`", text, re.MULTILINE)
        assert len(hops) >= 20
        assert [
            (path, name) for path, name in hops if not re.search(rf"(def|class) {name}\b", (package / path).read_text())
        ] == []


def test_the_hops_of_the_walks_are_counted_right() -> None:
    first, second = (re.findall(r"^- `([\w/]+\.py)", text, re.MULTILINE) for text in _walks())
    begins, ends = first.index("execution/child.py") + 1, first.index("execution/reporter.py") + 1
    child = first[begins:ends]
    texts = [" ".join(text.split()) for text in _walks()]
    assert f"That is {len(first)} hops through {len(set(first))} modules." in texts[0]
    whole = [*second, *child]
    assert f"That is {len(second)} hops, and with the {len(child)} inside the child" in texts[1]
    assert f"{len(whole)} hops through {len(set(whole))} modules." in texts[1]


def _headings(page: Path) -> set[str]:
    """As they are named in links."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_shown_in_the_docs_are_accepted(page: Path, tmp_path: Path) -> None:
    for block in re.findall(r"```toml\n(.*?)```", page.read_text(), re.DOTALL):
        file = tmp_path / "content-ai.toml"
        file.write_text(block)
        tomllib.loads(block)
        load(config_file=file, env={})


def test_every_make_target_in_the_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:^|`)make ([a-z]+)", (ROOT / "README.md").read_text(), re.MULTILINE)) <= targets


def test_the_workspace_names_the_code_location() -> None:
    workspace = yaml.safe_load((ROOT / "workspace.yaml").read_text())
    assert workspace["load_from"][0]["python_module"]["module_name"] == "content_pipeline.definitions"


def test_help_of_every_command_can_be_shown() -> None:
    for name, command in walk(cli, "content-ai"):
        assert command.get_help(click.Context(command, info_name=name))

"""`docs/reference.md`, made from the commands and the settings themselves: `make docs`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from content_pipeline.cli.config import shown
from content_pipeline.cli.main import cli
from content_pipeline.cli.printing import print_text
from content_pipeline.services.configuration import describe_settings
from content_pipeline.settings import ENV_PREFIX, Settings, flatten
from content_pipeline.settings.root_settings import ANY_ROOT


def reference() -> str:
    return "\n".join(["# Reference", "", "Made by `make docs`; do not edit.", "", *_commands(), *_settings()]) + "\n"


def _commands() -> Iterator[str]:
    yield from ("## Commands", "")
    for name, command in walk(cli, "content-ai"):
        context = click.Context(command, info_name=name)
        yield from (f"### `{name}`", "", command.get_help(context).split("\n\n")[1].strip(), "")
        options = [record for param in command.params if (record := param.get_help_record(context)) is not None]
        if options:
            yield from ("| option | meaning |", "|---|---|")
            yield from (f"| `{option}` | {_cell(meaning)} |" for option, meaning in options)
            yield ""


def walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with its full name."""
    if not isinstance(command, click.Group):
        yield name, command
        return
    if command.invoke_without_command:
        yield name, command
    context = click.Context(command)
    for child in command.list_commands(context):
        found = command.get_command(context, child)
        assert found is not None
        yield from walk(found, f"{name} {child}")


def _settings() -> Iterator[str]:
    yield from ("## Settings", "", "| setting | default | in the environment | what it does |", "|---|---|---|---|")
    descriptions = describe_settings()
    for key, value in flatten(Settings().model_dump(mode="json")).items():
        name = ENV_PREFIX + key.upper().replace(".", "__")
        yield f"| `{key}` | {f'`{shown(value)}`' if shown(value) else ''} | `{name}` | {_cell(descriptions[key])} |"
    name = ENV_PREFIX + ANY_ROOT.upper().replace(".", "__")
    yield f"| `{ANY_ROOT}` |  | `{name}` | {_cell(descriptions[ANY_ROOT])} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


if __name__ == "__main__":
    print_text(reference())

"""The entry point: finds the command, loads only that one, and turns errors into one clean line."""

from __future__ import annotations

import importlib
import os
import sys

import click

from content_pipeline.version import __version__

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_SOME_FAILED = 3
EXIT_INTERRUPTED = 130

_COMMANDS = {
    "process": ("content_pipeline.cli.process", "process", "Turn recordings into highlight montages."),
    "plan": ("content_pipeline.cli.plan", "plan", "Show what `process` would do, and why."),
    "tune": ("content_pipeline.cli.tune", "tune", "Find the threshold that gives a library the wanted montages."),
    "evaluate": ("content_pipeline.cli.evaluate", "evaluate", "Measure a detector on labelled clips."),
    "queue": ("content_pipeline.cli.queue", "queue", "List, retry, cancel and clean up jobs."),
    "worker": ("content_pipeline.cli.worker_group", "worker", "Execute the runs that Dagster launches."),
    "database": ("content_pipeline.cli.database", "database", "Move to Postgres, and migrate tables."),
    "roots": ("content_pipeline.cli.roots", "roots", "Name shared storage that hosts mount at different places."),
    "dev": ("content_pipeline.cli.dev", "dev", "Start the Dagster UI and daemon, and watch folders."),
    "demo": ("content_pipeline.cli.demo", "demo", "Make a small recording and process it."),
    "config": ("content_pipeline.cli.config", "config", "Show the settings."),
    "doctor": ("content_pipeline.cli.doctor", "doctor", "Check that this machine has everything that is needed."),
}


class LazyGroup(click.Group):
    """Loads a command's module when it is called, so that help stays light."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_line) for name, (_, _, help_line) in _COMMANDS.items()])


@click.command(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="content-ai")
def cli() -> None:
    """Turn gameplay recordings into highlight montages. Work is never lost and never done twice."""


def main() -> None:
    _open_standard_streams()
    try:
        sys.exit(run())
    except KeyboardInterrupt:  # while modules were still being loaded
        sys.exit(EXIT_INTERRUPTED)


def run() -> int:
    """Run the command named on the command line; returns the exit code."""
    from content_pipeline.cli.printing import print_error
    from content_pipeline.errors import BadLabels, BadSettings, MissingFile, PipelineError

    try:
        code = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print_error("interrupted")
        code = EXIT_INTERRUPTED
    except PipelineError as error:
        if _debugging():
            raise
        print_error(str(error), error.hint)
        code = EXIT_USAGE if isinstance(error, BadSettings | BadLabels | MissingFile) else EXIT_FAILURE
    except BrokenPipeError:
        # The reader went away (`| head`): nothing is left to say, and the interpreter must not try.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_FAILURE
    except Exception as error:
        if _debugging():
            raise
        print_error(f"{type(error).__name__}: {error}", PipelineError.hint)
        code = EXIT_FAILURE
    return code if isinstance(code, int) else 0


def _open_standard_streams() -> None:
    """Started with a stream closed, a pipe of ours could get its number: give each one back, leading nowhere."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _debugging() -> bool:
    return bool(os.environ.get("CONTENT_AI_DEBUG"))

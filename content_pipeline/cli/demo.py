"""`content-ai demo`: the whole pipeline on a recording that is made here, so that nothing is needed to try it."""

from __future__ import annotations

from pathlib import Path

import click

from content_pipeline.cli.options import resolve
from content_pipeline.cli.printing import print_note, print_result
from content_pipeline.settings import Settings
from content_pipeline.settings.value_types import expand_home


@click.command()
@click.option(
    "--folder", default="demo", type=click.Path(file_okay=False), help="Folder for recording and montage [demo]."
)
def demo(folder: str) -> int:
    """Make a small recording with a few fights in it and turn it into a montage."""
    from content_pipeline.cli.demo_recording import make_recording
    from content_pipeline.cli.process import run_process
    from content_pipeline.services.processing import ProcessRequest

    home = expand_home(Path(folder))
    recording = home / "recordings" / "bangs.mp4"
    if not recording.exists():
        print_note(f"Making a recording: {recording}")
        make_recording(recording)
    settings = resolve(None, None, (), {"output_dir": str(home / "montages")}).settings
    code = run_process(settings, ProcessRequest(target=recording.parent))
    if code == 0:
        _show(settings)
    return code


def _show(settings: Settings) -> None:
    folder = settings.output_dir.absolute()
    for title, pattern in (("Montage", "*.mp4"), ("Plot", "*.plot.png"), ("Contact sheet", "*.sheet.jpg")):
        for path in sorted(folder.glob(pattern)):
            print_result(f"{title + ':':15}{path}")
    print_result(f"{'UI:':15}make dev   (then open http://127.0.0.1:3000)")

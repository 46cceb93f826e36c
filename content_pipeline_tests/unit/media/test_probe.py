"""What a recording says of itself, and what is refused before anything is decoded."""

from pathlib import Path

import pytest

from content_pipeline.errors import NotAVideo
from content_pipeline.media.probe import probe
from content_pipeline.media.source import open_source
from content_pipeline.settings import LimitSettings
from content_pipeline_tests import samples


@pytest.mark.parametrize(("known", "unknown", "kind"), [(b"avc1", b"zq71", "video"), (b"sowt", b"zq7t", "audio")])
def test_a_track_in_an_unknown_format_is_refused_by_name(known: bytes, unknown: bytes, kind: str, tmp_path: Path):
    made = samples.recording(tmp_path, "made.mov", seconds=1, sound="pcm_s16le", bursts=())
    odd = tmp_path / "odd.mov"
    odd.write_bytes(made.read_bytes().replace(known, unknown))
    with open_source(odd) as source, pytest.raises(NotAVideo, match=f"{kind} in an unknown format"):
        probe(source, LimitSettings())

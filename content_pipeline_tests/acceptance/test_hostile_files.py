"""Playlists that point elsewhere: the kernel itself says that nothing else was opened or called."""

import ctypes
import json
import os
import select
import shutil
import socket
import sys
from pathlib import Path

import pytest

from content_pipeline_tests.acceptance.test_cli import content_ai
from content_pipeline_tests.helpers import samples

IN_OPEN = 0x20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="inotify is Linux's")


class OpenWatch:
    """Tells whether anyone opened a file, by inotify."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(os.O_NONBLOCK)
        assert libc.inotify_add_watch(self._descriptor, str(path).encode(), IN_OPEN) >= 0

    def was_opened(self) -> bool:
        return bool(select.select([self._descriptor], [], [], 0)[0])


def playlists(port: int, neighbour: str) -> dict[str, str]:
    head = "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\n"
    return {
        "hls_file.mp4": f"{head}{neighbour}\n#EXT-X-ENDLIST\n",
        "hls_url.mp4": f"{head}http://127.0.0.1:{port}/x.ts\n#EXT-X-ENDLIST\n",
        "hls_spaces.mp4": f"\n\n  {head}{neighbour}\n#EXT-X-ENDLIST\n",
        "concat.mp4": f"ffconcat version 1.0\nfile '{neighbour}'\n",
        "concat.mkv": f"ffconcat version 1.0\nfile '{neighbour}'\n",
        "sdp.mp4": f"v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=audio {port} RTP/AVP 0\n",
        "dash.mp4": '<?xml version="1.0"?>\n<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period>'
        f"<AdaptationSet><Representation id='1'><BaseURL>http://127.0.0.1:{port}/v.mp4</BaseURL></Representation>"
        "</AdaptationSet></Period></MPD>",
    }


def test_nothing_that_a_file_names_is_opened_or_called(tmp_path: Path, samples_folder: Path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    neighbour = tmp_path / "private.ts"
    shutil.copy(samples.recording(samples_folder, "short.ts", seconds=6, bursts=((2, 3),)), neighbour)
    shutil.copy(samples.recording(samples_folder, "short.mp4", seconds=6, bursts=((2, 3),)), library / "good.mp4")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        for name, text in playlists(server.getsockname()[1], str(neighbour)).items():
            (library / name).write_text(text)
        watch = OpenWatch(neighbour)
        done = content_ai("process", "-i", library, "--json", cwd=tmp_path)
        assert not watch.was_opened()
        with pytest.raises(BlockingIOError):
            server.accept()
    rows = {Path(row["path"]).name: row for row in json.loads(done.stdout)["videos"]}
    assert rows.pop("good.mp4")["status"] == "succeeded"
    assert {row["error_code"] for row in rows.values()} == {"hostile_container"}


def test_the_watch_itself_sees_an_opening(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("x")
    watch = OpenWatch(file)
    assert not watch.was_opened()
    file.read_text()
    assert watch.was_opened()

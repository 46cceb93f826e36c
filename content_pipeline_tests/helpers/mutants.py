"""Damaged recordings in great number, each made from a whole one by a seed: the same number is the same damage.

    for mutant in mutants.make(folder, recordings, count=250): ...

Damage is of the kinds that disks, copies and crashes leave: flipped bits, zeroed and overwritten ranges, blocks
that changed places or came twice, missing middles, missing ends; anywhere, or in the headers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

from content_pipeline_tests.helpers import samples

HEADER_BYTES = 4096


def recordings(folder: Path, seconds: float = 6.0) -> list[Path]:
    """One small recording in every container that is read, as recorders write them."""
    more: dict[str, dict[str, object]] = {
        "plain.mp4": {},
        "far.mp4": {"gop": 240},  # cut smart
        "fragmented.mp4": {"more": ("-movflags", "frag_keyframe+empty_moov")},
        "plain.mov": {"bframes": 0},
        "plain.mkv": {"open_gop": True},
        "plain.webm": {"codec": "libvpx", "sound": "libopus", "rate_hz": 48_000},
        "plain.avi": {"codec": "mpeg4", "sound": "libmp3lame"},
        "h264.avi": {"sound": "libmp3lame", "bframes": 0},
        "plain.ts": {},
        "plain.flv": {},
    }
    bursts = ((1.5, 2.5), (4.0, 4.6))
    return [
        samples.recording(folder, name, seconds=seconds, bursts=bursts, **options)  # type: ignore[arg-type]
        for name, options in more.items()
    ]


def make(folder: Path, wholes: Sequence[Path], count: int, first: int = 0) -> Iterator[Path]:
    """`count` damaged recordings, taking turns; named by what was damaged, how, and the seed."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in range(first, first + count):
        whole = wholes[seed % len(wholes)]
        random = Random(f"{whole.name} {seed}")
        name, damage = random.choice(list(DAMAGE.items()))
        target = folder / f"{seed:04}-{name}-{whole.name}"
        target.write_bytes(damage(bytearray(whole.read_bytes()), random))
        yield target


def _flipped(data: bytearray, random: Random) -> bytes:
    for _ in range(random.choice((1, 2, 8, 64, 512))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def _flipped_in_headers(data: bytearray, random: Random) -> bytes:
    for _ in range(random.choice((1, 2, 8, 32))):
        position = random.randrange(min(HEADER_BYTES, len(data)))
        data[position if random.random() < 0.5 else -1 - position] ^= 1 << random.randrange(8)
    return bytes(data)


def _zeroed(data: bytearray, random: Random) -> bytes:
    start, end = _range(data, random)
    data[start:end] = bytes(end - start)
    return bytes(data)


def _overwritten(data: bytearray, random: Random) -> bytes:
    start, end = _range(data, random)
    data[start:end] = random.randbytes(end - start)
    return bytes(data)


def _swapped(data: bytearray, random: Random) -> bytes:
    start, end = _range(data, random)
    other = random.randrange(len(data) - (end - start) + 1)
    moved = data[other : other + end - start]
    data[other : other + end - start], data[start:end] = data[start:end], moved
    return bytes(data)


def _doubled(data: bytearray, random: Random) -> bytes:
    start, end = _range(data, random)
    return bytes(data[:end] + data[start:])


def _without_middle(data: bytearray, random: Random) -> bytes:
    start, end = _range(data, random)
    return bytes(data[:start] + data[end:])


def _without_end(data: bytearray, random: Random) -> bytes:
    return bytes(data[: random.randrange(1, len(data))])


def _range(data: bytearray, random: Random) -> tuple[int, int]:
    length = min(len(data) // 2, random.choice((16, 188, 512, 4096, 16384)))
    start = random.randrange(len(data) - length)
    return start, start + length


DAMAGE: dict[str, Callable[[bytearray, Random], bytes]] = {
    "flipped": _flipped,
    "headers": _flipped_in_headers,
    "zeroed": _zeroed,
    "overwritten": _overwritten,
    "swapped": _swapped,
    "doubled": _doubled,
    "middle-lost": _without_middle,
    "end-lost": _without_end,
}

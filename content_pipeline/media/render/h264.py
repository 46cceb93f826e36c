"""H.264 as containers carry it: NAL units, parameter sets and the `avcC` box.

Clips hold length-prefixed NAL units and keep all parameter sets in the box. A re-encoded piece gets
parameter sets with ids of its own, so both kinds live in one track without repeating them in the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from content_pipeline.media.damage import Damaged

SLICE, PARTITION, IDR, SPS, PPS, DELIMITER = 1, 2, 5, 7, 8, 9
_LAST_KNOWN_TYPE = 23
_HIGH_PROFILES = (100, 110, 122, 144)
_MAX_SPS_ID = 31


class Malformed(Damaged):
    """Bytes that are not H.264: what a damaged packet looks like."""


@dataclass(frozen=True)
class ParameterSets:
    """What a decoder must know before the first picture. `length_size` belongs to the packets beside them."""

    sps: tuple[bytes, ...]
    pps: tuple[bytes, ...]
    length_size: int = 4

    def ids(self) -> frozenset[int]:
        """Every id in use, of either kind."""
        return frozenset([sps_id(unit) for unit in self.sps] + [pps_id(unit) for unit in self.pps])

    def free_id(self) -> int:
        """An id that neither kind uses; x264 gives both of its sets the same one."""
        taken = self.ids()
        free = next((number for number in range(_MAX_SPS_ID + 1) if number not in taken), None)
        if free is None:
            raise Malformed("all parameter set ids are taken")
        return free

    def merged(self, other: ParameterSets) -> ParameterSets:
        """Both in one; equal sets once. The same id with another content cannot share a track."""
        sps = tuple(dict.fromkeys(self.sps + other.sps))
        pps = tuple(dict.fromkeys(self.pps + other.pps))
        if len({sps_id(unit) for unit in sps}) < len(sps) or len({pps_id(unit) for unit in pps}) < len(pps):
            raise Malformed("two different parameter sets have the same id")
        return ParameterSets(sps, pps, self.length_size)

    def as_box(self) -> bytes:
        """The `avcC` box, for four-byte lengths."""
        first = self.sps[0]
        level = max(unit[3] for unit in self.sps)
        box = bytearray([1, first[1], first[2], level, 0xFF, 0xE0 | len(self.sps)])
        for unit in self.sps:
            box += len(unit).to_bytes(2, "big") + unit
        box.append(len(self.pps))
        for unit in self.pps:
            box += len(unit).to_bytes(2, "big") + unit
        if first[1] in _HIGH_PROFILES:
            box += bytes([0xFC | 1, 0xF8, 0xF8, 0])  # 4:2:0, 8 bit, no extension: all that is ever copied
        return bytes(box)


def from_box(box: bytes) -> ParameterSets:
    try:
        position, sets = 5, []
        length_size = (box[4] & 3) + 1
        for mask in (0x1F, 0xFF):
            units = []
            count, position = box[position] & mask, position + 1
            for _ in range(count):
                size = int.from_bytes(box[position : position + 2], "big")
                units.append(box[position + 2 : position + 2 + size])
                position += 2 + size
            sets.append(tuple(units))
        return ParameterSets(sets[0], sets[1], length_size)
    except IndexError as error:
        raise Malformed("the avcC box is cut short") from error


def is_box(extradata: bytes) -> bool:
    return len(extradata) > 6 and extradata[0] == 1


def parameter_sets(extradata: bytes) -> ParameterSets:
    """From a container's extra data, in either spelling."""
    if is_box(extradata):
        return from_box(extradata)
    units = list(annexb_units(extradata))
    return ParameterSets(
        tuple(unit for unit in units if unit[0] & 31 == SPS),
        tuple(unit for unit in units if unit[0] & 31 == PPS),
        length_size=0,
    )


def unit_types(data: memoryview, length_size: int) -> list[int]:
    """The types of one packet's NAL units; `length_size` 0 means start codes. Damage raises `Malformed`."""
    heads = [unit[0] for unit in annexb_units(bytes(data))] if length_size == 0 else _heads(data, length_size)
    types = [head & 31 for head in heads]
    if any(head & 0x80 for head in heads) or any(not 1 <= kind <= _LAST_KNOWN_TYPE for kind in types):
        raise Malformed("an impossible unit type")
    if not any(kind in (SLICE, PARTITION, IDR) for kind in types):
        raise Malformed("a packet without a picture")
    return types


def _heads(view: memoryview, length_size: int) -> list[int]:
    return [view[start] for start, _ in _bounds(view, length_size)]


def _bounds(view: memoryview, length_size: int) -> Iterator[tuple[int, int]]:
    position = 0
    while position < len(view):
        start = position + length_size
        position = start + int.from_bytes(view[position:start], "big")
        if position == start or position > len(view):
            raise Malformed("a unit longer than its packet")
        yield start, position


def units_of(data: memoryview, length_size: int) -> list[bytes]:
    """The NAL units of one packet; of a damaged one those before the damage."""
    if length_size == 0:
        return list(annexb_units(bytes(data)))
    units: list[bytes] = []
    with suppress(Malformed):
        units.extend(bytes(data[start:end]) for start, end in _bounds(data, length_size))
    return units


def has_picture(units: Iterable[bytes]) -> bool:
    return any(unit[0] & 31 in (SLICE, PARTITION, IDR) for unit in units)


def annexb_units(data: bytes) -> Iterator[bytes]:
    start = data.find(b"\0\0\1")
    while start >= 0:
        following = data.find(b"\0\0\1", start + 3)
        unit = data[start + 3 : following if following >= 0 else len(data)].rstrip(b"\0")
        if unit:
            yield unit
        start = following


def prefixed(units: Iterable[bytes]) -> bytes:
    """Units as clips store them: four-byte lengths, parameter sets and delimiters left to the box."""
    kept = (unit for unit in units if unit[0] & 31 not in (SPS, PPS, DELIMITER))
    return b"".join(len(unit).to_bytes(4, "big") + unit for unit in kept)


def sps_id(unit: bytes) -> int:
    return _exp_golomb(unit[4:])


def pps_id(unit: bytes) -> int:
    return _exp_golomb(unit[1:])


def _exp_golomb(data: bytes) -> int:
    """The first unsigned exp-Golomb number; ids are small, a few bytes hold them."""
    bits = "".join(f"{byte:08b}" for byte in data[:8])
    zeros = len(bits) - len(bits.lstrip("0"))
    if zeros * 2 + 1 > len(bits):
        raise Malformed("no number where an id should be")
    return int(bits[zeros : zeros * 2 + 1], 2) - 1

from __future__ import annotations

import pytest

from content_pipeline.media.render import h264

SPS_0 = bytes([0x67, 100, 0, 31, 0b10000000, 1])  # id 0
SPS_1 = bytes([0x67, 100, 0, 40, 0b01000000, 1])  # id 1
PPS_0 = bytes([0x68, 0b10000000])
PPS_1 = bytes([0x68, 0b01000000])
SLICE, IDR = b"\x41\x9a\x01", b"\x65\x88\x80"


def _prefixed(*units: bytes) -> memoryview:
    return memoryview(b"".join(len(unit).to_bytes(4, "big") + unit for unit in units))


def test_a_box_of_parameter_sets_reads_back_as_written() -> None:
    sets = h264.ParameterSets((SPS_0, SPS_1), (PPS_0, PPS_1))
    assert h264.from_box(sets.as_box()) == sets


def test_the_box_announces_the_highest_level() -> None:
    assert h264.ParameterSets((SPS_0, SPS_1), (PPS_0,)).as_box()[3] == 40


def test_an_edge_gets_an_id_that_the_recording_does_not_use() -> None:
    assert h264.ParameterSets((SPS_0,), (PPS_0, PPS_1)).free_id() == 2


def test_equal_sets_merge_and_contradicting_ones_do_not() -> None:
    one, two = h264.ParameterSets((SPS_0,), (PPS_0,)), h264.ParameterSets((SPS_1,), (PPS_1,))
    assert one.merged(one) == one
    assert one.merged(two).sps == (SPS_0, SPS_1)
    with pytest.raises(h264.Malformed):
        one.merged(h264.ParameterSets((SPS_0 + b"x",), (PPS_0,)))


def test_start_codes_become_lengths_and_headers_stay_out() -> None:
    stream = b"\0\0\0\1\x09\xf0\0\0\0\1" + SPS_0 + b"\0\0\1" + PPS_0 + b"\0\0\1" + IDR
    assert h264.prefixed(h264.annexb_units(stream)) == bytes(_prefixed(IDR))


def test_a_keyframe_is_told_from_its_units() -> None:
    assert h264.IDR in h264.unit_types(_prefixed(SPS_0, IDR), 4)
    assert h264.IDR not in h264.unit_types(_prefixed(SLICE), 4)


@pytest.mark.parametrize(
    "data", [bytes(40), b"\0\0\xff\xff" + SLICE, bytes(_prefixed(SPS_0)), bytes(_prefixed(b"\xff\xff"))]
)
def test_damage_is_noticed(data: bytes) -> None:
    with pytest.raises(h264.Malformed):
        h264.unit_types(memoryview(data), 4)


def test_of_a_damaged_packet_what_came_before_is_kept() -> None:
    assert h264.units_of(memoryview(bytes(_prefixed(SLICE)) + bytes(20)), 4) == [SLICE]

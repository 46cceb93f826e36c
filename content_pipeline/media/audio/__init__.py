"""The sound of a recording on the recording's clock, in constant memory.

- `decode.py`: frames of one track out of the container, damage counted
- `timeline.py`: where each frame stands: gaps, overlaps, jitter
- `mono_blocks.py`: the two together: mono blocks at 22,050 Hz, and a report of what was missing
- `loudest_track.py`: which of several tracks is the loudest
"""

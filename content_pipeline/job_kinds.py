"""The kinds of jobs that ship with the program. To the manifest a kind is any text: a new one needs no change there."""

from __future__ import annotations

PROCESSING = "processing"  # brings a video up to date
CALIBRATION = "calibration"  # finds the threshold of a library

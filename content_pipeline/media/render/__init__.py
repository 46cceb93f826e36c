"""Cutting highlights out of a recording and joining them to a montage.

Every mode makes self-contained clip files (`clip`), and one join concatenates them (`join`):
pictures are never encoded twice, and the sound is laid against the pictures' clock, so that
nothing drifts over a montage. `choice` says which mode suits a recording, `verify` has the last word.
"""

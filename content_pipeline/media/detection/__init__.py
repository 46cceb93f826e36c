"""Detection: from curves to candidates, of which some are events. Pure.

- `detector.py`: what a detector is, its records, and which preset is which
- `broadband.py`: the default detector
- `classic.py`: percussive RMS above one threshold
- `rolling_stats.py`: what a recording sounds like around each frame
- `stretches.py`: stretches of frames where a condition holds
- `labels.py`: a file of clips and what a person heard in each
- `evaluation.py`: how well events agree with labels
"""

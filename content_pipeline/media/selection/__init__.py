"""Selection: which events are shown, and how much of each. Pure.

- `highlights.py`: from events to the highlights of one montage; start here
- `windows.py`: which part of a long highlight stays
- `best_of_selection.py`: the highlights that stand out most in a library
- `threshold_trial.py`: what one recording would show with another threshold
- `tuning.py`: which threshold gives a library what is wanted of it
"""

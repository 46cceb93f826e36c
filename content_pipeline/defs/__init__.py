"""What Dagster sees; `definitions.py` composes it.

`assets/` has one file per stage, `checks` what is verified of a montage, and `library_report` what is out of date in a
library. `partitions` are videos and libraries. `resources` opens what a stage works with. `jobs`, `schedules` and
`sensors` say what runs and when, `maintenance` what keeps the records small and current. `asset_errors` turns the error
of a stage into a retry or a failure of Dagster's.
"""

"""Dagster's runs and records, as far as they are not definitions (`defs/`) or launchers.

- `instance.py`: Dagster's home, and opening it
- `dagster_yaml.py`: the file in it that names our launcher and storage
- `runs.py`: creates, executes and ends runs (the `RunBackend` of `execution/runs.py`)
- `names.py`: the tags of our runs
- `records.py`: what a materialization remembers for the manifest
- `manifest_rebuild.py`: the manifest, rebuilt from those records
- `lost_manifest.py`: notices that the manifest was lost
- `run_logs.py`: what a run printed, for the UI
- `run_retention.py`: forgets runs that nobody needs
- `storage.py`: Dagster's databases in SQLite
- `backfill_records.py`: backfills in Dagster's records
- `backfills.py`: jobs that bring videos up to date, shown as backfills of Dagster
- `compressed_events.py`: its events, compressed
- `records_damage.py`: names damage to these databases, with the way out
- `private_api.py`: every private call into Dagster
"""

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
- `configured_storage.py`: the storage that `dagster.yaml` names: one of the next two, as the settings say
- `storage.py`: Dagster's databases in SQLite
- `backfill_records.py`: backfills in Dagster's records
- `backfills.py`: jobs that bring videos up to date, shown as backfills of Dagster
- `postgres_storage.py`: Dagster's records in Postgres
- `postgres_pool.py`: connections that are kept, and that never cross a fork
- `copy_to_postgres.py`: the manifest and Dagster's records, copied from SQLite
- `whole_storage.py`: the three storages of either, as one
- `atomic_events.py`: an event and what is derived from it, in one transaction
- `lasting_success.py`: a run that has succeeded stays so
- `compressed_events.py`: its events, compressed
- `records_damage.py`: names damage to these databases, with the way out
- `private_api.py`: every private call into Dagster
"""

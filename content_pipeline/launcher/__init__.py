"""How Dagster runs reach processes."""

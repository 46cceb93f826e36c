"""The database of what is known and done. Knows no media and no Dagster."""

"""Processes that carry work: forked from a warm parent, watched, and gone when it is. Knows no Dagster."""

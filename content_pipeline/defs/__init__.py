"""What Dagster sees: assets, checks, partitions and the job that runs them."""

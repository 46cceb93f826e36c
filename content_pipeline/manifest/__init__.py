"""The manifest: the database of jobs, videos and what was published. Knows no media and no Dagster.

`open.py` opens the one that the settings name. `manifest.py` is the object; its parts are

- `jobs.py`: the jobs: reading them, and all verbs put together. Each verb is a method of the class in its file:
  `enqueue.py`, `claim.py`, `lease.py` (the fence, and renewal), `worker_ops.py` (what a worker reports),
  `operator_ops.py` (what people and plans order), `rescue.py` (orphans); `jobs_part.py` is what they share
- `videos.py`, `libraries.py`, `recipes.py`, `calibrations.py`, `publications.py`
- `workers.py`: who works here, idle workers too
- `breakers.py`: which work is paused; `breaker.py` decides it, without a database

What they share: `model.py` (the records), `job_filter.py`, `lifecycle.py` (states and legal moves), `transitions.py` (a
change of state with its history), `retry_policy.py` (what happens after an error), `counts.py`.

The whole: `check.py` (is it sound?), `prune.py`, `restore.py`, `staleness.py` (since when jobs are out of date).

The database: `database.py` (opening, transactions), `database_retry.py` (while it is away), `database_errors.py`,
`database_owner.py` (is it ours?), `sqlite.py`, `postgres.py`, `postgres_schema.py` (where in the database),
`write_queue.py`, `schema.py`, `migrate.py`, `compatibility.py` (with newer schemas), `rights.py` (of a role),
`table_copy.py`, `statements.py`.
"""

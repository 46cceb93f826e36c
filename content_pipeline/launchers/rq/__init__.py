"""The launcher of several machines: RQ on Redis or Valkey says which runs wait, and workers of any host take them.

A message is the id of a run, and nothing more. Whoever takes one must still win the claim of its job in the manifest:
a message that is lost or doubled costs time, never correctness. Everything in Redis can be made again from Dagster's
records and the manifest.

- `run_launcher.py`: the launcher
- `launch_queue.py`: the launch queue: what was launched, by Dagster's records, the manifest and what is announced
- `announcements.py`: the RQ queues, by kind of work and by priority
- `run_leases.py`: who executes a run that is about no job, for which the manifest has no lease
- `redis_server.py`: the connection, and the names of its errors
- `registration.py`: how RQ's own tools see our workers
- `worker.py`: the worker of a host: takes announced runs, forks a warm child for each, and brings back what died
"""

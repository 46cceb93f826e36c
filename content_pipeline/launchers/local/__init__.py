"""The launcher of one machine: launches are files in a folder, and a supervisor forks a warm child for each.

- `run_launcher.py`: what Dagster calls: launch, resume, terminate, is it alive?
- `folder_launch_queue.py`: the launch queue
- `supervisor_process.py`: sees to it that a supervisor lives: found, started, replaced, ended
- `supervisor_lock.py`: the lock that the supervisor holds, who it is, and whether it hangs
- `__main__.py`: the supervisor's process
- `supervisor.py`: the supervisor: takes launches in, has them executed, ends their runs
- `abandoned_runs.py`: runs that nobody executes any more
- `reconcile.py`: makes Dagster's records, the manifest and the processes agree again
"""

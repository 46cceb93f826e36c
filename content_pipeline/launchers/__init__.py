"""How a run that Dagster launches reaches a process that executes it.

- `queue_launcher.py`: a run launcher that puts runs into a launch queue: what all launchers share, and how the others
  find the one that is configured
- `launch_queue.py`: the queue between launching and executing, as a protocol
- `abandoned_runs.py`: runs that nobody executes any more
- `reconcile.py`: makes Dagster's records, the manifest and the processes agree again
- `configured_launcher.py`: the launcher that `dagster.yaml` names: one of those below, as the settings say
- `run_worker.py`: what every worker process does with launched runs
- `local/`: the launcher of one machine: a queue in a folder, and a supervisor that forks warm children
- `rq/`: the launcher of several machines: RQ on Redis or Valkey, and a worker on each host

Another launcher (a cluster, another message broker) is another folder beside them:

1. A queue with the methods of `LaunchQueue`.
2. A `QueueRunLauncher` like `local/run_launcher.py`: which queue it has, how workers are started, whether they live.
3. A process that takes launches out, a `RunWorker`: `Admission.admit` (`execution/admission.py`) decides whether one
   may work and claims its job, `JobExecutor` (`execution/job_executor.py`) executes it.
4. `configured_launcher.py` makes it. It is done when tests that kill everything, as in `integration/test_launcher.py`
   and `integration/test_rq.py`, pass for it.
"""

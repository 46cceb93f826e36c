"""How a run that Dagster launches reaches a process that executes it.

- `queue_launcher.py`: a run launcher that puts runs into a launch queue: what all launchers share, and how the others
  find the one that is configured
- `launch_queue.py`: the queue between launching and executing, as a protocol
- `abandoned_runs.py`: runs that nobody executes any more
- `reconcile.py`: makes Dagster's records, the manifest and the processes agree again
- `local/`: the launcher of one machine: a queue in a folder, and a supervisor that forks warm children

Another launcher (a cluster, a message broker) is another folder beside `local/`:

1. A queue with the methods of `LaunchQueue`.
2. A `QueueRunLauncher` like `local/run_launcher.py`: which queue it has, how workers are started, whether they live.
3. A process that takes launches out: `Admission.admit` (`execution/admission.py`) decides whether one may work and
   claims its job, `JobExecutor` (`execution/job_executor.py`) executes it. `local/supervisor.py` is the example.
4. `dagster.yaml` names the class. It is done when the tests in `integration/test_launcher.py`, which kill everything,
   pass for it.
"""

"""How a run that Dagster launches reaches a process that executes it.

- `launch_queue.py`: the queue between the two, as a protocol
- `local/`: the launcher of one machine: a queue in a folder, and a supervisor that forks warm children

Another launcher (a cluster, a message broker) is another folder beside `local/`:

1. A queue with the methods of `LaunchQueue`, and a Dagster `RunLauncher` like `local/run_launcher.py`, which adds
   `launch_of(run)` (`dagster_runtime/launches.py`) to it.
2. A process that takes launches out: `Admission.admit` (`execution/admission.py`) decides whether one may work and
   claims its job, `JobExecutor` (`execution/job_executor.py`) executes it. `local/supervisor.py` is the example.
3. `dagster.yaml` names the class. It is done when the tests in `integration/test_launcher.py`, which kill everything,
   pass for it.
"""

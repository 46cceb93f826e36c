"""Executing jobs in forked children, under a lease. Knows the manifest and the stages, and no Dagster.

Who takes work:

- `queue_worker.py`: a worker without a daemon: claims jobs until nothing is left
- `self_claimed_run.py`: a run that no worker executes: it claims, renews and commits by itself
- `single_job.py`: one job here and now, for a command that waits for it
- `launch.py`: a run that somebody asked to have executed, as a record that any launcher can carry
- `admission.py`: whether a launched run may work: admitted, refused or not yet
- `job_kinds/`: the kinds of jobs, one handler each

The parent:

- `job_executor.py`: starts children, hears from them, keeps their jobs alive and commits them
- `assignment.py`: what a child is given to do
- `child_pool.py`: the forked processes
- `active_job.py`: what is known of a job while a child works on it
- `child_report.py`: what the child has said so far, folded into one record
- `heartbeat.py`: renews leases
- `worker_registration.py`: the worker's row in the manifest, for people to look at
- `watchdog.py`: finds children that live and do nothing any more
- `commit.py`: what becomes of a job when its child has ended
- `rescue.py`: brings back jobs whose worker is gone
- `outcome.py`: what became of a recording, as a person is told

The child:

- `child.py`: what a child does with its assignment
- `run_context.py`: whom the run reports to, and by which lease it publishes
- `stage_context.py`: what stages work with
- `reporter.py`: sends messages to the parent
- `messages.py`: the messages

Both:

- `runs.py`: what is asked of Dagster's runs, as a protocol
- `job_settings.py`: what each job is made with
- `names.py`: the names by which jobs and runs find each other
- `worker_identity.py`: who a worker is, and whether it lives
- `manifest_identity.py`: which manifest a process works on
- `warm_up.py`: loads what is heavy before children are forked
"""

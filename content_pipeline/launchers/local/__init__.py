"""The launcher of one machine: launches are files in a folder, and a supervisor forks a warm child for each.

- `run_launcher.py`: the launcher; sees to it that a supervisor lives: found, started, replaced, ended
- `folder_launch_queue.py`: the launch queue
- `supervisor_lock.py`: the lock that the supervisor holds, who it is, and whether it hangs
- `supervisor.py`: the supervisor, a process of its own: takes launches in, has them executed, ends their runs
"""

"""The command `content-ai`. A command parses, calls a service, and prints.

The commands, one file each:

- `process.py`: a folder of recordings in, montages out
- `plan.py`: what `process` would do, and why
- `tune.py`: the threshold that gives a library the wanted montages
- `evaluate.py`: how well a detector does on labelled clips
- `queue/`: list, retry, cancel and clean up jobs
- `roots.py`: name shared storage, and list what this host sees of it
- `worker.py`: execute the runs that Dagster launches, in the foreground
- `worker_group.py`: that command, and those below it
- `worker_list.py`: the workers on every host
- `database.py`: move to Postgres, and migrate tables
- `dev.py`: Dagster's UI and daemon
- `demo.py`: the whole pipeline on a recording that is made here
- `config.py`: the settings
- `doctor.py`: can this machine do the work?

What they share:

- `main.py`: finds the command, and turns errors into one line and an exit code
- `__main__.py`: the same for `python -m content_pipeline.cli`
- `options.py`: options of several commands, and how flags become settings
- `interruption.py`: Ctrl-C as a request to stop
- `printing.py`: the only module that writes to the terminal
- `live.py`: progress while videos are processed
- `found.py`: what was found in a folder, and what was passed over
- `report.py`: what was done, reused and failed, and the exit code
- `demo_recording.py`: the sound of the demo's recording, and the file
- `demo_picture.py`: its picture
- `reference.py`: writes `docs/reference.md`
"""

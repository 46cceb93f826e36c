"""What a person can ask for: settings and a request in, a typed document out. The CLI, Dagster and scripts call it.

- `processing.py`: process a folder, or what waits in the queue: enqueues what a folder needs, and works on the queue
- `library_report.py`: what of a library is out of date, why, since when, and at what cost
- `outcome_recorder.py`: collects what became of each recording
- `processing_document.py`: the same as a document
- `planning.py`: what `process` would do and why, how long it would take, and whether there is room
- `planner.py`: decides what is to be done in a folder, also in watched ones, and writes it into the manifest
- `recordings.py`: finds the recordings of a folder
- `watch_document.py`: what was done about watched folders, as a document
- `tuning.py`: thresholds of a library, tried out and applied
- `calibrating.py`: the threshold of a library, found for somebody who waits
- `evaluating.py`: measures a detector on labelled clips
- `queueing.py`: jobs: look at them, retry, cancel, discard and resume them
- `workers.py`: the workers on every host, and what each does
- `pauses.py`: why work waits, in words
- `moving.py`: from SQLite to Postgres; makes and migrates tables
- `upkeep.py`: clear, prune, check, verify and rebuild
- `configuration.py`: the settings in force, and where they came from
- `health.py`: whether this machine can do the work
- `hosts_health.py`: whether it and the other hosts agree
- `report_file.py`: the CSV file of that report
- `results.py`: what was made so far, as tables
- `storage.py`: shared storage that has a name, and what this host sees of it
- `document.py`: the base of all documents
"""

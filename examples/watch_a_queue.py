"""Print how the queue moves until nothing waits or runs: `python watch_a_queue.py`."""

import time
from collections import Counter

from content_pipeline import State, load_settings, open_manifest

BUSY = {State.PENDING, State.RUNNING, State.DIRTY}


def main() -> None:
    manifest = open_manifest(load_settings())
    shown: Counter[State] | None = None
    while True:
        counts = Counter(job.status for job in manifest.jobs.list())
        if counts != shown:
            print(", ".join(f"{number} {state}" for state, number in counts.items()) or "no jobs")
            shown = counts
        if not BUSY & counts.keys():
            break
        time.sleep(1)
    for job in manifest.jobs.list():
        if job.status is State.FAILED:
            print(f"{job.subject}: {job.error_code}: {job.last_error}")


if __name__ == "__main__":
    main()

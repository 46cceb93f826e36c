"""Highlights in an hour of each recording, as a table and as bars: `python highlights_per_hour.py`.

With matplotlib installed, `per_hour.plot.barh()` draws the same.
"""

from pathlib import Path

from content_pipeline import Results


def main() -> None:
    highlights = Results().highlights()
    if highlights.empty:
        print("no highlights yet")
        return
    by_recording = highlights.groupby("subject")
    hours = by_recording["recording_s"].first() / 3600
    per_hour = (by_recording.size() / hours).sort_values(ascending=False)
    for recording, rate in per_hour.items():
        bar = "#" * round(40 * rate / per_hour.max())
        print(f"{Path(recording).name:30} {rate:8.1f} {bar}")


if __name__ == "__main__":
    main()

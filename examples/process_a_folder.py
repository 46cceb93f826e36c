"""Process a folder of recordings and say what became of each: `python process_a_folder.py ~/Videos montages`."""

import sys

from content_pipeline import load_settings, process_folder


def main(folder: str, output: str) -> int:
    settings = load_settings(output_dir=output, output__max_duration_s=60)
    outcomes = process_folder(folder, settings)
    for outcome in outcomes:
        print(outcome.path.name, outcome.status, outcome.montage or outcome.error or "no highlights")
    return 0 if all(outcome.status == "succeeded" for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))

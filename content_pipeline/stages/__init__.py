"""The stages: what each depends on, and how its artifact is made or found again.

Start with `video`: all stages of one video, in order. Each stage is a function of the context (`context`) and the
results of the stages that it depends on: `fingerprint`, `energy`, `detections`, `montage`. The stages of a library are
`calibration` and `best_of`. `clips` is what a montage and a best-of share. Names and versions are in `stage.py`.
"""

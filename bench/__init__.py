"""Benches: ours and a baseline, the same input, one run. Ratios are what counts; machines differ."""

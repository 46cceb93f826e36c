"""Putting montages where people look, without ever touching a file of theirs.

Start with `publish`: the order of its steps, and why. `names` chooses file names, `replace_file` exchanges one file for
another, `sidecar` writes the JSON file beside a montage.
"""

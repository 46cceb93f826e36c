"""Folders of recordings: which files there are, and which video each of them is."""

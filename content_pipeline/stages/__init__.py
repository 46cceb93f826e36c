"""The four stages of a video: what each depends on, and how its artifact is made or found again.

Each stage asks for the one before it, so any of them can be asked for alone; what exists is reused.
"""

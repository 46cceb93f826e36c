"""Content Pipeline: recordings go in, highlight montages come out."""

__version__ = "0.1.0"

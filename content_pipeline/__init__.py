"""Content Pipeline: recordings go in, highlight montages come out.

The names in `__all__` are the Python API (docs/python.md). Each is loaded when it is first used, so that
`import content_pipeline` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from content_pipeline.version import __version__ as __version__

__all__ = [
    "ClaimRequest",
    "Job",
    "JobFailure",
    "JobFilter",
    "JobRequest",
    "JobResult",
    "Lease",
    "LostLease",
    "Manifest",
    "Outcome",
    "PipelineError",
    "Results",
    "RetryPolicy",
    "Settings",
    "State",
    "list_workers",
    "load_settings",
    "open_manifest",
    "process_folder",
]

if TYPE_CHECKING:
    from content_pipeline.errors import LostLease, PipelineError, RetryPolicy
    from content_pipeline.execution.outcome import Outcome
    from content_pipeline.manifest.job_filter import JobFilter
    from content_pipeline.manifest.lifecycle import State
    from content_pipeline.manifest.manifest import Manifest
    from content_pipeline.manifest.model import ClaimRequest, Job, JobFailure, JobRequest, JobResult, Lease
    from content_pipeline.manifest.open import open_manifest
    from content_pipeline.scripting import process_folder
    from content_pipeline.services.results import Results
    from content_pipeline.services.workers import list_workers
    from content_pipeline.settings import Settings, load_settings

_HOMES = {
    "ClaimRequest": "manifest.model",
    "Job": "manifest.model",
    "JobFailure": "manifest.model",
    "JobFilter": "manifest.job_filter",
    "JobRequest": "manifest.model",
    "JobResult": "manifest.model",
    "Lease": "manifest.model",
    "LostLease": "manifest.transitions",
    "Manifest": "manifest.manifest",
    "Outcome": "execution.outcome",
    "PipelineError": "errors",
    "Results": "services.results",
    "RetryPolicy": "errors",
    "Settings": "settings",
    "State": "manifest.lifecycle",
    "list_workers": "services.workers",
    "load_settings": "settings",
    "open_manifest": "manifest.open",
    "process_folder": "scripting",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])

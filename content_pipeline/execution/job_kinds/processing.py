"""Processing: a recording is brought up to date, from its fingerprint to its montage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from content_pipeline import job_kinds
from content_pipeline.errors import BadSettings, LibraryOffline, MissingFile, PipelineError, printable
from content_pipeline.execution.child_report import ChildReport
from content_pipeline.execution.job_kinds.handler import Dispatch, Prepared, Refused, is_under_way, is_whole
from content_pipeline.execution.launch import Launch
from content_pipeline.execution.messages import Identified, WorkEnded
from content_pipeline.execution.names import PROCESS_VIDEO, VIDEO_PARTITIONS
from content_pipeline.execution.reporter import PipeReporter
from content_pipeline.execution.rescue import current_job
from content_pipeline.failpoints import failpoint
from content_pipeline.library.identify import identify, likely_key
from content_pipeline.library.keys import slug
from content_pipeline.library.plan import OWN_COPIES
from content_pipeline.library.recipe import recipe_of
from content_pipeline.library.scan import scan
from content_pipeline.library.space import check_space
from content_pipeline.manifest.job_filter import JobFilter
from content_pipeline.manifest.lifecycle import CLAIMABLE, State
from content_pipeline.manifest.manifest import Manifest
from content_pipeline.manifest.model import Job, JobRequest, JobResult
from content_pipeline.manifest.videos import KnownVideo
from content_pipeline.settings import Settings
from content_pipeline.settings.job_options import JobOptions, OneRun, forced_stages, lasting, settings_for
from content_pipeline.stage import VIDEO_STAGES
from content_pipeline.stages.context import StageContext

BY_HAND = "a run was started by hand"
SHOWN_FACTS = ("highlights", "events", "clips", "montage_s", "track", "tracks")


class ProcessingHandler:
    kind = job_kinds.PROCESSING
    dagster_job = PROCESS_VIDEO
    description = "Fingerprint, energy, detections and montage of one recording; what is up to date is reused."
    partitions = VIDEO_PARTITIONS
    stages = VIDEO_STAGES
    dispatch = Dispatch(
        sensor="dispatch_jobs",
        interval_s=5,
        description="Requests a run for each job that is due, a few at a time; the other jobs wait in the manifest.",
        nothing_due="No job is due, or enough runs are open.",
    )
    needs_run = True
    goes_with_file = True

    def partition_key(self, job: Job, manifest: Manifest) -> str:
        with _offline_library_named(job):
            return likely_key(Path(job.subject), Path(job.library), manifest.videos)

    def settings_of(self, job: Job, settings: Settings) -> Settings:
        return settings_for(job.options, settings)

    def config_hash(self, settings: Settings) -> str | None:
        return recipe_of(settings).config_hash

    # --- a run that a person started

    def job_by_hand(self, launch: Launch, settings: Settings, manifest: Manifest) -> Job | Refused:
        key = str(launch.partition_key)
        jobs = manifest.jobs.list(JobFilter(video_key=key))
        current = [again for job in jobs if (again := current_job(manifest, job.job_id)) is not None]
        if not current:
            place = _place_of(key, settings, manifest)
            if place is None:
                return Refused(
                    f"no file is known for the video {key}; watch its folder, or run `content-ai process` on it"
                )
            path, root = place
            unread = manifest.jobs.find(self.kind, str(path))
            if unread is None:
                new = JobRequest(str(path), str(root), video_key=key, requires=settings.queue.requires)
                return _asked(_on_terms(new, launch, settings, manifest), manifest)
            current = [unread]
        running = next((job for job in current if job.status is State.RUNNING), None)
        if running is not None and is_under_way(running, launch):
            return running
        if running is not None:
            return Refused(
                f"{key} is already being processed by run {running.run_id} (worker {running.worker_id}); "
                f"wait for it, or stop it with `content-ai queue cancel {running.job_id}`"
            )
        job = current[0]
        if job.status in (State.CANCELLED, State.DISCARDED) and not is_whole(self, launch):
            return Refused(f"{key} is {job.status}; run `content-ai queue resume {job.job_id}` first")
        asked = _asked(_on_terms(_again(job), launch, settings, manifest), manifest, job)
        # Somebody wants it now: what a run of some stages leaves does not wait for the quiet hours.
        manifest.jobs.raise_priority([asked.job_id], 0)
        return asked

    # --- in the child

    def prepare(self, job: Job, settings: Settings, manifest: Manifest, reporter: PipeReporter) -> Prepared:
        settings_for(job.options, settings)  # what cannot be understood is refused before anything is done
        video = _identify(job, manifest, reporter.alive)
        failpoint("identified")
        check_space(video.size_bytes, settings)
        reporter.send(Identified(video.key, video.size_bytes))
        return Prepared(video.key, f"{printable(video.path)} is the video {video.key}", video.key)

    def execute(self, context: StageContext, job: Job, manifest: Manifest) -> None:
        raise NotImplementedError("a video is processed in a run of Dagster")

    def end(self, ended: WorkEnded, job: Job, manifest: Manifest) -> WorkEnded:
        content = manifest.videos.at(Path(job.subject))
        return ended if content is None else replace(ended, quick=content.quick, full=content.full)

    # --- in the parent

    def is_complete(self, report: ChildReport) -> bool:
        """Every stage was heard of, and where its outputs are."""
        return set(self.stages) <= set(report.stage_keys) and self.stages[-1] in report.finished

    def commit(self, report: ChildReport, job: Job, manifest: Manifest) -> bool:
        manifest.jobs.succeed(job.lease, _result(report, job), job)
        return True

    def describe_request(self, job: Job) -> Iterator[str]:
        if job.options is not None:
            try:
                options = JobOptions.from_json(job.options)
            except BadSettings as error:
                yield str(error)
                return
            values = ", ".join(f"{key} {value}" for key, value in options.settings.items())
            asked = "asked for" if options.one_run is None else "asked for in one run"
            yield f"{asked}: output folder {printable(options.output_dir)}; {values or 'default settings'}"
        if job.force_id is not None:
            stages = forced_stages(job.options)
            yield f"forced: nothing older is reused{'' if stages is None else ' of ' + ', '.join(stages)}"


def _again(job: Job) -> JobRequest:
    """A request for a job as it is."""
    return JobRequest(
        subject=job.subject,
        library=job.library,
        video_key=job.video_key,
        priority=job.priority,
        options=job.options,
        force_id=job.force_id,
        requires=job.requires,
    )


def _on_terms(request: JobRequest, launch: Launch, settings: Settings, manifest: Manifest) -> JobRequest:
    """A request with what a person set in the launchpad, in place of what was set there for an earlier run.

    What lasts, a command's options and its force, stays.
    """
    before, overrides = lasting(request.options), launch.overrides
    commanded = request.force_id if forced_stages(request.options) is None else None
    if not overrides:
        return replace(request, options=before, force_id=commanded)
    wanted = overrides.onto(settings_for(before, settings))
    own = manifest.calibrations.settings_for(wanted, str(launch.partition_key))
    recipe = recipe_of(own)  # so that a plan can tell what changed
    manifest.recipes.remember(recipe.config_hash, recipe.as_json())
    one_run = OneRun(before, None if commanded is not None else overrides.forced)
    return replace(
        request,
        options=replace(JobOptions.of(wanted), one_run=one_run).as_json(),
        force_id=overrides.force_id(launch.run_id) if commanded is None else commanded,
    )


def _asked(request: JobRequest, manifest: Manifest, job: Job | None = None) -> Job:
    """The job, waiting to be done on these terms; one that waits for them already is left as it is."""
    _end_pauses(manifest)
    if (
        job is not None
        and job.status in CLAIMABLE
        and (job.options, job.force_id) == (request.options, request.force_id)
    ):
        return job
    return manifest.jobs.ask(request, BY_HAND)


def _place_of(key: str, settings: Settings, manifest: Manifest) -> tuple[Path, Path] | None:
    """Where the file of a video is, and its library: it is known, or found by its name among what nobody has read yet.

    A key begins with the name of its file, so that few are read, and of those five samples.
    """
    for video in manifest.videos.with_key(key):
        return video.path, video.root
    for path, root in _unread(settings, manifest):
        if key.startswith(f"{slug(path.stem)}-"):
            with suppress(PipelineError):  # it is named by the run that is about it
                if likely_key(path, root, manifest.videos) == key:
                    return path, root
    return None


def _unread(settings: Settings, manifest: Manifest) -> Iterator[tuple[Path, Path]]:
    """Recordings that were enqueued and not read yet, then those of the watched folders."""
    for job in manifest.jobs.list(JobFilter(kind=job_kinds.PROCESSING)):
        if job.video_key is None:
            yield Path(job.subject), Path(job.library)
    for folder in settings.library.folders:
        with suppress(PipelineError):  # a folder that is away holds nothing now
            found = scan(folder, settings.library)
            yield from ((one.path, found.root) for one in found.recordings)


def _end_pauses(manifest: Manifest) -> None:
    """A person asks for it: try at once, and pause again if need be."""
    if manifest.breakers.all():
        manifest.breakers.close()


@contextmanager
def _offline_library_named(job: Job) -> Iterator[None]:
    """A recording that is missing together with its whole library is not gone: the library is offline."""
    try:
        yield
    except MissingFile as error:
        if not Path(job.library).is_dir():
            raise LibraryOffline(f"{printable(job.library)} does not exist") from error
        raise


def _identify(job: Job, manifest: Manifest, alive: Callable[[], None]) -> KnownVideo:
    with _offline_library_named(job):
        return identify(Path(job.subject), Path(job.library), manifest.videos, alive)


def _result(report: ChildReport, job: Job) -> JobResult:
    assert report.ended is not None and report.latest is not None, "only what ended well is committed"
    outputs = dict(report.latest.outputs)
    return JobResult(
        video_key=report.key,
        input_hash_quick=report.ended.quick,
        input_hash_full=report.ended.full,
        input_size=report.input_bytes,
        # A calibration may have been applied since the job was claimed.
        config_hash=job.config_hash if report.config_hash is None else report.config_hash,
        stage_keys=report.stage_keys,
        output_files=list(outputs),
        output_hashes=outputs,
        results={
            "facts": {name: report.facts.get(name) for name in SHOWN_FACTS},
            "output_stats": dict(report.ended.output_stats),
            "notes": list(report.latest.notes),
            OWN_COPIES: True,
        },
        cost=report.cost,
    )

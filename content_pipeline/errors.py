"""The tree of errors that a person can meet, each with a code, a retry policy and a hint.

The message says what happened and to which video; the hint says what to do next.
Codes are stable: they are stored, filtered on and documented.
"""

from __future__ import annotations

import errno
from enum import Enum
from pathlib import Path
from typing import ClassVar


class RetryPolicy(Enum):
    """What a later attempt could change."""

    PERMANENT = "permanent"  # nothing, until a person or the input changes
    TRANSIENT = "transient"  # perhaps everything: try again after a back-off
    ENVIRONMENTAL = "environmental"  # the environment has a problem (disk, network, database): pause until it is over


class PipelineError(Exception):
    """Something this project names; everything else is a bug and reported as `internal_error`."""

    code: ClassVar[str] = "internal_error"
    policy: ClassVar[RetryPolicy] = RetryPolicy.TRANSIENT
    hint: str = "This is a bug: please report it. CONTENT_AI_DEBUG=1 and the run's log show the traceback."

    def __init__(self, *args: object, hint: str | None = None) -> None:
        """`hint` in place of the general one, where more is known: the very path to move, the command to type."""
        super().__init__(*args)
        if hint is not None:
            self.hint = hint


class PermanentError(PipelineError):
    policy = RetryPolicy.PERMANENT


class TransientError(PipelineError):
    policy = RetryPolicy.TRANSIENT


class EnvironmentalError(PipelineError):
    policy = RetryPolicy.ENVIRONMENTAL


class MissingFile(PermanentError):
    code = "missing_file"
    hint = "Put the file back, or remove the video from the library."


class NoPermission(PermanentError):
    code = "no_permission"
    hint = "Give the user who runs the pipeline permission to read the file."


class UnsafePath(PermanentError):
    code = "unsafe_path"
    hint = "Only regular files inside the library are read: move the file into the library."


class NotAVideo(PermanentError):
    code = "not_a_video"
    hint = "The file contains no recording that can be read; remove it, or convert it to MP4 or MKV."


class HostileContainer(PermanentError):
    code = "hostile_container"
    hint = "Playlists that point at other files or hosts are never followed; use the recording itself."


class CorruptMedia(PermanentError):
    code = "corrupt_media"
    hint = "Copy the recording again from its source, or repair it."


class NoAudio(PermanentError):
    code = "no_audio"
    hint = "Highlights are found by sound: record with game or microphone audio."


class NoPicture(PermanentError):
    code = "no_picture"
    hint = "The file contains only sound; a montage needs a video track."


class LimitExceeded(PermanentError):
    code = "limit_exceeded"
    hint = "The file exceeds a limit in the settings (`limits.*`); raise the limit if you trust the file."


class BadSettings(PermanentError):
    code = "bad_settings"
    hint = "`content-ai config show` lists every setting, its value and where it came from."


class ForeignDatabase(BadSettings):
    code = "foreign_database"
    hint = "Nothing in it was changed. Name another file or database for the manifest: `--db`, or the setting `db`."


class OldSchema(BadSettings):
    code = "old_schema"
    hint = "Commands that only look change nothing: the next `content-ai process` brings the manifest up to date."


class NewerSchema(EnvironmentalError):
    code = "newer_schema"
    hint = "Install the newer version here, too, or name another `db`. Nothing is lost: the new workers do the jobs."


class NoManifest(BadSettings):
    code = "no_manifest"
    hint = "Look for a slip in `--db` or the setting `db`; `content-ai process` makes a manifest, looking makes none."


class TargetNotEmpty(BadSettings):
    code = "target_not_empty"
    hint = "Nothing was changed. Name a new, empty Postgres database."


class StillInUse(PermanentError):
    code = "still_in_use"
    hint = "Stop `content-ai dev` and all workers (`content-ai worker list`), wait for commands to end, and try again."


class CopyDiffers(TransientError):
    code = "copy_differs"
    hint = "Nothing was written, and the SQLite files are as they were: report it, with the message."


class BadLabels(PermanentError):
    code = "bad_labels"
    hint = "The guide describes the format of a labels file; the clips must be in the same folder."


class UnknownLibrary(PermanentError):
    code = "unknown_library"
    hint = "Name the folder as it was processed, or process it first: `content-ai process -i FOLDER`."


class NoCurves(PermanentError):
    code = "no_curves"
    hint = "Process the library first (`content-ai process -i FOLDER`): tuning reads cached curves."


class FfmpegFailed(TransientError):
    code = "ffmpeg_failed"
    hint = "The message ends with the last lines of ffmpeg; the job is retried."


class FfmpegTimedOut(TransientError):
    code = "ffmpeg_timed_out"
    hint = "Raise `render.time_limit_s`, or check whether the machine is overloaded."


class FfmpegStalled(TransientError):
    code = "ffmpeg_stalled"
    hint = "Raise `render.stall_limit_s`, or check the disk that it reads from."


class FileInUse(TransientError):
    code = "file_in_use"
    hint = "The file changed while it was read; the job is retried once the file has stopped changing."


class ReadFailed(TransientError):
    code = "read_failed"
    hint = "The disk or network share failed; the job is retried."


class OutOfMemory(TransientError):
    code = "out_of_memory"
    hint = "Use fewer workers (`--workers`), or add memory."


class RunForgotten(TransientError):
    code = "run_forgotten"
    hint = "Dagster's records were deleted or replaced during the run; it is tried again, and reuses what is done."


class WorkerCrashed(TransientError):
    code = "crashed"
    hint = "The worker process died; process this file alone to see whether it is the cause."


class Stalled(TransientError):
    code = "stalled"
    hint = "The message says where it hung; it is tried again. Raise queue.stall_s if the machine is only slow."


class DiskFull(EnvironmentalError):
    code = "disk_full"
    hint = "Free some space; the work continues where it stopped."


class FolderUnwritable(EnvironmentalError):
    code = "folder_unwritable"
    hint = "Make the output and state folders writable for the user who runs the pipeline."


class DagsterHomeBroken(EnvironmentalError):
    code = "dagster_home_broken"
    hint = (
        "Move what the message names away (`mv FILE FILE.damaged`) and run the command again: a new one is made. "
        "Only the history of runs is lost, no results."
    )


class ManifestDamaged(EnvironmentalError):
    code = "manifest_damaged"
    hint = (
        "Move the database away (`mv FILE FILE.damaged`) and run `content-ai process` again: a new one is made, and "
        "filled from Dagster's records. Artifacts and montages stay."
    )


class DatabaseAway(EnvironmentalError):
    code = "database_away"
    hint = "Start the database again; the work continues where it stopped."


class DatabaseBusy(DatabaseAway):
    code = "database_busy"
    hint = "Other processes use the database for long at a time; work continues afterwards. Fewer workers may help."


class DatabaseReadOnly(DatabaseAway):
    code = "database_read_only"
    hint = "The server is a standby, or was made read-only: let `db` name the primary. The work goes on when it writes."


class RedisAway(EnvironmentalError):
    code = "redis_away"
    hint = (
        "Start Redis (or Valkey) again, or correct `redis_url`; runs that were launched wait, and go on by themselves."
    )


class DatabasePermission(EnvironmentalError):
    code = "database_permission"
    hint = (
        "The database role lacks a right: deploy/postgres-roles.sql grants what workers and readers need. Tables are "
        "made by the owner's role, with `content-ai database upgrade`; `content-ai doctor` says what a role may do."
    )


class LibraryOffline(EnvironmentalError):
    code = "library_offline"
    hint = "Mount the folder again; the work continues where it stopped."


class StorageMismatch(EnvironmentalError):
    code = "storage_mismatch"
    hint = "Mount the storage, or correct `[roots]` in the settings of this host; `content-ai doctor` shows every root."


class IllegalMove(PermanentError):
    code = "illegal_move"
    hint = "Look at the job with `content-ai queue show`."


class LostLease(PermanentError):
    """Another worker may own the job now: stop, and publish nothing."""

    code = "lost_lease"
    hint = "Nothing to do: another worker has taken over the job, and its result counts."


class UnknownJob(PermanentError):
    code = "unknown_job"
    hint = "List the jobs with `content-ai queue list`."


class NameTaken(TransientError):
    code = "name_taken"
    hint = "Another video was published under the same name at the same moment; another name is chosen next time."


class BeingCalibrated(PermanentError):
    code = "being_calibrated"
    hint = "Wait for it to end, or stop it with `content-ai queue cancel`."


class Paused(EnvironmentalError):
    code = "paused"
    hint = "`content-ai queue status` says why; `content-ai queue resume --pauses` ends the pause."


class CalibrationStopped(PermanentError):
    code = "calibration_stopped"
    hint = "Somebody cancelled it; nothing was applied."


def from_os_error(error: OSError, path: Path) -> PipelineError:
    """Name an operating-system error met while reading or writing `path`."""
    by_errno: dict[int, type[PipelineError]] = {
        errno.ENOENT: MissingFile,
        errno.ENOTDIR: MissingFile,
        errno.EACCES: NoPermission,
        errno.EPERM: NoPermission,
        errno.ELOOP: UnsafePath,
        errno.ENAMETOOLONG: UnsafePath,
        errno.ENOSPC: DiskFull,
        errno.EDQUOT: DiskFull,
        errno.ENOMEM: OutOfMemory,
        errno.EBUSY: FileInUse,
        errno.ETXTBSY: FileInUse,
    }
    kind = by_errno.get(error.errno if error.errno is not None else -1, ReadFailed)
    return kind(f"{printable(path)}: {error.strerror or error}")


def from_own_folder(error: OSError, path: Path) -> PipelineError:
    """Name an error met in a folder of ours: never the recording's fault, and the same for every video."""
    named = from_os_error(error, path)
    return named if isinstance(named, (DiskFull, OutOfMemory)) else FolderUnwritable(str(named))


def name_database_error(error: BaseException) -> PipelineError | None:
    """Name a database's complaint by what it says; whose database it is does not matter."""
    said = str(error).lower()
    if "disk i/o error" in said or "database or disk is full" in said:
        return DiskFull(f"a database could not be written: {error.args[0] if error.args else error}")
    if "database is locked" in said or "readonly database" in said or "unable to open database" in said:
        return DatabaseAway(f"a database could not be used: {error.args[0] if error.args else error}")
    return None


def named(error: Exception) -> Exception:
    """An error under the best name there is for it, as met while working on a video."""
    from content_pipeline.system.child_process import ChildDied  # imports more than everybody needs for an error

    if isinstance(error, PipelineError):
        return error
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return DiskFull(str(error))
    if isinstance(error, ChildDied):
        return WorkerCrashed(str(error))
    found = name_database_error(error)
    return error if found is None else found


def printable(path: Path | str) -> str:
    """A path as one line of valid text, whatever bytes its name holds."""
    text = str(path).encode("utf-8", "backslashreplace").decode("utf-8")
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)


def counted(number: int, noun: str) -> str:
    """`1 video`, `2 videos`, `3 history entries`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith("ry") else f"{number} {noun}s"


def hint_for(code: str | None) -> str | None:
    """What to do about an error that is only known by its code."""
    return None if code is None else _hints(PipelineError).get(code)


def _hints(kind: type[PipelineError]) -> dict[str, str]:
    found = {kind.code: kind.hint}
    for subclass in kind.__subclasses__():
        found |= _hints(subclass)
    return found


def error_with_code(code: str | None, message: str, hint: str | None = None) -> PipelineError:
    """An error of another process, by the code that it was reported with."""
    return _kinds(PipelineError).get(str(code), PipelineError)(message, hint=hint)


def _kinds(kind: type[PipelineError]) -> dict[str, type[PipelineError]]:
    found = {kind.code: kind}
    for subclass in kind.__subclasses__():
        found = {**_kinds(subclass), **found}  # a code belongs to the most general that has it
    return found


def code_of(error: BaseException) -> str:
    return error.code if isinstance(error, PipelineError) else PipelineError.code

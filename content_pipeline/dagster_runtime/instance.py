"""Dagster's own folder: where its runs and events are kept between commands."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg

from content_pipeline.dagster_runtime.configured_storage import ConfiguredRecords, postgres_of, using
from content_pipeline.dagster_runtime.dagster_yaml import NAME as DAGSTER_YAML
from content_pipeline.dagster_runtime.dagster_yaml import changed_ns, home_path, provide_home
from content_pipeline.dagster_runtime.postgres_storage import PooledEvents, examine_postgres
from content_pipeline.dagster_runtime.private_api import TEMPORARY_HOME_PREFIX, instance_ref
from content_pipeline.dagster_runtime.storage import SqliteRecords, examine_records
from content_pipeline.errors import (
    BadSettings,
    DagsterHomeBroken,
    PipelineError,
    from_own_folder,
    name_database_error,
    printable,
)
from content_pipeline.execution.names import VIDEO_PARTITIONS
from content_pipeline.settings import Settings, load


def dagster_home(settings: Settings) -> Path:
    """Dagster's home, made on first use."""
    postgres_of(settings)  # says now whether the settings contradict each other
    return provide_home(settings)


def home_of(instance: dg.DagsterInstance) -> Path:
    """The home of an instance: what lasts is kept there.

    With `DAGSTER_HOME` unset Dagster's own commands call a temporary folder their home, which goes when they end. Our
    records are elsewhere then, and so is everything else that must outlive the command.
    """
    root = Path(instance.root_directory)
    return dagster_home(load().settings) if root.name.startswith(TEMPORARY_HOME_PREFIX) else root


def open_instance(settings: Settings) -> dg.DagsterInstance:
    """Dagster's records."""
    home = dagster_home(settings)
    try:
        with _named(home), using(settings):
            instance = dg.DagsterInstance.from_ref(instance_ref(home, changed_ns(home)))
        if postgres_of(settings) is not None and not isinstance(instance.event_log_storage, PooledEvents):
            raise BadSettings(
                f"`dagster_storage` = 'postgres', but {printable(home / DAGSTER_YAML)} names another storage",
                hint=f"Let it name {ConfiguredRecords.__name__} of {ConfiguredRecords.__module__}, as the shipped one.",
            )
        instance.has_dynamic_partition(VIDEO_PARTITIONS, "any")  # says now whether the records can be read
    except OSError as error:
        raise from_own_folder(error, home) from error
    except PipelineError:
        raise
    except Exception as error:
        if (named := name_database_error(error)) is not None:
            raise named from error
        raise DagsterHomeBroken(
            f"Dagster's records in {printable(home)} cannot be used: {_first_line(error)}"
        ) from error
    return instance


def examine_home(settings: Settings) -> str:
    """What there is to say of Dagster's home, without changing anything in it; raises what is wrong with it."""
    home, url = home_path(settings), postgres_of(settings)
    if url is not None and not (home / DAGSTER_YAML).exists():
        return examine_postgres(url)
    with _named(home):
        try:
            storage = instance_ref(home, changed_ns(home)).storage_data
        except Exception as error:
            raise DagsterHomeBroken(f"{printable(home / DAGSTER_YAML)} cannot be used: {_first_line(error)}") from error
    if storage is not None and storage.class_name == ConfiguredRecords.__name__ and url is not None:
        return f"home {printable(home)}; {examine_postgres(url)}"
    if storage is None or storage.class_name not in (SqliteRecords.__name__, ConfiguredRecords.__name__):
        kept_by = "Dagster's own defaults" if storage is None else f"{storage.module_name}.{storage.class_name}"
        return f"home {printable(home)}; its records, kept by {kept_by}, were not looked at"
    examine_records(home)
    return f"home {printable(home)}"


@contextmanager
def _named(home: Path) -> Iterator[None]:
    """`dagster.yaml` says where its records are by the variable that Dagster itself goes by."""
    before = os.environ.get("DAGSTER_HOME")
    os.environ["DAGSTER_HOME"] = str(home)
    try:
        yield
    finally:
        if before is None:
            del os.environ["DAGSTER_HOME"]
        else:
            os.environ["DAGSTER_HOME"] = before


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__

"""The product as it is left running: `content-ai dev`, a watched folder, and everything killed in turn."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from content_pipeline.launchers.local.folder_launch_queue import FolderLaunchQueue
from content_pipeline.launchers.local.supervisor_lock import SupervisorLock
from content_pipeline.manifest.lifecycle import State
from content_pipeline.manifest.model import Job
from content_pipeline.manifest.open import open_manifest
from content_pipeline.settings import load
from content_pipeline_tests.helpers import samples
from content_pipeline_tests.helpers.chaos import SIZE, by_size
from content_pipeline_tests.helpers.eventually import eventually, let_time_pass
from content_pipeline_tests.helpers.ports import free_port

LEASE_S = 10


class Dev:
    """A running `content-ai dev`, and what a person can see and do from outside."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.library, self.output, self.state = folder / "library", folder / "output", folder / "state"
        self.library.mkdir(parents=True)
        self.config = folder / "content-ai.toml"
        self.configure()
        self.port = free_port()
        self.log = folder / "dev.log"
        self._process: subprocess.Popen[bytes] | None = None

    def configure(self, **values: str) -> None:
        """Write the settings file; `detection__rms_threshold="0.2"` means `[detection] rms_threshold = 0.2`."""
        base = {
            "library__settle_s": "0.5",
            "schedule__watch_interval_s": "1",
            "queue__heartbeat_s": "1",
            "queue__lease_s": str(LEASE_S),
        }
        sections: dict[str, list[str]] = {}
        for name, value in {**base, **values}.items():
            section, key = name.split("__")
            sections.setdefault(section, []).append(f"{key} = {value}")
        self.config.write_text("\n".join(f"[{name}]\n" + "\n".join(lines) for name, lines in sections.items()))

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONTENT_AI_", "DAGSTER"))}
        return {**kept, "CONTENT_AI_STATE_DIR": str(self.state), "CONTENT_AI_OUTPUT_DIR": str(self.output)}

    def cli(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "content_pipeline.cli", *arguments]
        return subprocess.run(
            command, env=self.environment, cwd=self.folder, capture_output=True, text=True, timeout=120, check=False
        )

    def start(self) -> None:
        command = [sys.executable, "-m", "content_pipeline.cli", "dev", "--watch", str(self.library)]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--port", str(self.port)],
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        eventually(self._answers, "the UI answers", 120)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(60)
            self._process = None

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            return "data" in self.graphql("{ version }")
        return False

    def graphql(self, query: str, **variables: Any) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/graphql",
            json.dumps({"query": query, "variables": variables}).encode(),
            {"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
        assert "errors" not in found, found
        return found

    # --- looking

    def job(self, name: str) -> Job | None:
        settings = load(flags={"state_dir": self.state}, env={}).settings
        found = [job for job in open_manifest(settings).jobs.list() if job.subject.endswith(name)]
        return found[0] if found else None

    def is_done(self, name: str) -> bool:
        job = self.job(name)
        return job is not None and job.status is State.SUCCEEDED

    def runs(self) -> dict[str, str]:
        query = "{ runsOrError { ... on Runs { results { runId status } } } }"
        results = self.graphql(query)["data"]["runsOrError"]["results"]
        return {run["runId"]: run["status"] for run in results}

    def backfills(self) -> list[str]:
        query = "{ partitionBackfillsOrError { ... on PartitionBackfills { results { status } } } }"
        return [one["status"] for one in self.graphql(query)["data"]["partitionBackfillsOrError"]["results"]]

    def stale_status(self, asset: str, key: str) -> str | None:
        query = """query($asset: String!, $key: String!) { assetNodeOrError(assetKey: {path: [$asset]}) {
            ... on AssetNode { staleStatus(partition: $key) } } }"""
        found: str | None = self.graphql(query, asset=asset, key=key)["data"]["assetNodeOrError"].get("staleStatus")
        return found

    def last_look(self) -> float:
        """When the sensor that watches the folders began its latest tick."""
        query = """{ sensorOrError(sensorSelector: {repositoryLocationName: "content_pipeline",
            repositoryName: "__repository__", sensorName: "watch_libraries"}) {
            ... on Sensor { sensorState { ticks(limit: 1) { timestamp } } } } }"""
        ticks = self.graphql(query)["data"]["sensorOrError"]["sensorState"]["ticks"]
        return ticks[0]["timestamp"] if ticks else 0.0

    def has_looked_since(self, look: float) -> bool:
        return self.last_look() > look

    def launch(self, job_name: str) -> None:
        mutation = """mutation($job: String!) { launchRun(executionParams: {mode: "default", selector: {
            repositoryLocationName: "content_pipeline", repositoryName: "__repository__", jobName: $job}}) {
            __typename } }"""
        found = self.graphql(mutation, job=job_name)["data"]["launchRun"]["__typename"]
        assert found == "LaunchRunSuccess", found

    def launch_with(self, key: str, config: dict[str, Any]) -> tuple[str | None, list[str]]:
        """What the launchpad does with a run config: the run, or why it is refused."""
        mutation = """mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
            ... on LaunchRunSuccess { run { runId } } ... on RunConfigValidationInvalid { errors { message } } } }"""
        params = {
            "selector": {
                "repositoryLocationName": "content_pipeline",
                "repositoryName": "__repository__",
                "jobName": "process_video",
            },
            "runConfigData": {"ops": {asset: {"config": values} for asset, values in config.items()}},
            "executionMetadata": {"tags": [{"key": "dagster/partition", "value": key}]},
        }
        found = self.graphql(mutation, params=params)["data"]["launchRun"]
        return found.get("run", {}).get("runId"), [error["message"] for error in found.get("errors", [])]

    def execute_again(self, run_id: str) -> str:
        mutation = """mutation($params: ReexecutionParams!) { launchRunReexecution(reexecutionParams: $params) {
            __typename ... on LaunchRunSuccess { run { runId } } } }"""
        params = {"parentRunId": run_id, "strategy": "ALL_STEPS"}
        found = self.graphql(mutation, params=params)["data"]["launchRunReexecution"]
        assert found["__typename"] == "LaunchRunSuccess", found
        again: str = found["run"]["runId"]
        return again

    @contextlib.contextmanager
    def second_daemon(self) -> Iterator[None]:
        workspace = Path(__file__).resolve().parents[2] / "workspace.yaml"
        environment = {
            **self.environment,
            "DAGSTER_HOME": str(self.state / "dagster"),
            "CONTENT_AI_LIBRARY__FOLDERS": str(self.library),
        }
        with self.log.open("ab") as log:
            daemon = subprocess.Popen(
                [str(Path(sys.executable).parent / "dagster-daemon"), "run", "-w", str(workspace)],
                env=environment,
                cwd=self.folder,
                stdout=log,
                stderr=log,
            )
        try:
            yield
        finally:
            daemon.terminate()
            daemon.wait(60)

    def computed(self, key: str) -> dict[tuple[str, str], int]:
        """How often each stage of a video was really done, by its name and stage key."""
        query = """query($key: String!) { assetNodes(group: {groupName: "video", repositoryName: "__repository__",
            repositoryLocationName: "content_pipeline"}) { assetKey { path } assetMaterializations(partitions: [$key]) {
            tags { key value } metadataEntries { label ... on BoolMetadataEntry { boolValue } } } } }"""
        return Counter(
            (node["assetKey"]["path"][0], tag["value"])
            for node in self.graphql(query, key=key)["data"]["assetNodes"]
            for made in node["assetMaterializations"]
            for tag in made["tags"]
            for entry in made["metadataEntries"]
            if tag["key"] == "dagster/data_version" and entry["label"] == "reused" and entry["boolValue"] is False
        )

    @property
    def launch_queue(self) -> FolderLaunchQueue:
        return FolderLaunchQueue(self.state / "dagster")

    @property
    def supervisor_lock(self) -> SupervisorLock:
        return SupervisorLock(self.state / "dagster")

    def commands(self) -> dict[int, str]:
        """The live processes of this project, but for the command itself."""
        mark = f"CONTENT_AI_STATE_DIR={self.state}".encode()
        own = {os.getpid(), None if self._process is None else self._process.pid}
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0") and int(folder.name) not in own:
                    found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        return found

    def processes(self, *words: str) -> list[int]:
        """Those whose command has these words."""
        return sorted(pid for pid, command in self.commands().items() if all(word in command for word in words))


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dev]:
    found = Dev(tmp_path_factory.mktemp("dev"))
    found.start()
    try:
        yield found
    finally:
        found.stop()
        for pid in found.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def recordings(samples_folder: Path) -> dict[str, Path]:
    return {
        name: samples.recording(samples_folder, f"{name}.mp4", seconds=seconds, size=size, bursts=((2, 3), (5, 6)))
        for name, seconds, size in (("slow", 8, (320, 180)), ("killed", 30, (640, 360)), ("again", 9, (320, 180)))
    }


def copy_slowly(source: Path, target: Path, dev: Dev) -> None:
    """So that the watching sensor looks at the file after every piece."""
    data = source.read_bytes()
    pieces = 3
    with target.open("wb") as file:
        for number in range(pieces):
            file.write(data[number * len(data) // pieces : (number + 1) * len(data) // pieces])
            file.flush()
            eventually(partial(dev.has_looked_since, dev.last_look()), "the sensor looked again")


def test_a_recording_that_is_copied_slowly_is_left_alone_until_it_is_whole_and_then_done(
    dev: Dev, recordings: dict[str, Path]
) -> None:
    copy_slowly(recordings["slow"], dev.library / "slow.mp4", dev)
    assert dev.job("slow.mp4") is None
    eventually(lambda: dev.is_done("slow.mp4"), "the montage was made")
    job = dev.job("slow.mp4")
    assert (job.attempt_count, job.crash_count) == (1, 0)
    assert (dev.output / "slow.mp4").exists()
    assert dev.runs()[job.run_id] == "SUCCESS"


def test_what_a_run_printed_is_shown_in_the_ui_from_the_log_of_its_worker(dev: Dev) -> None:
    run = dev.job("slow.mp4").run_id
    query = """query($run: ID!) { logsForRun(runId: $run) { ... on EventConnection { events {
        __typename ... on LogsCapturedEvent { fileKey } } } } }"""
    events = dev.graphql(query, run=run)["data"]["logsForRun"]["events"]
    (file_key,) = [event["fileKey"] for event in events if event["__typename"] == "LogsCapturedEvent"]
    query = """query($key: [String!]!) { capturedLogs(logKey: $key) { stdout stderr }
        capturedLogsMetadata(logKey: $key) { stderrLocation } }"""
    found = dev.graphql(query, key=[run, "compute_logs", file_key])["data"]
    log = dev.state / "logs" / f"run-{run}.log"
    assert found["capturedLogsMetadata"]["stderrLocation"] == str(log)
    assert found["capturedLogs"]["stderr"] == found["capturedLogs"]["stdout"] == log.read_text()
    assert "RUN_SUCCESS" in found["capturedLogs"]["stderr"]
    nobody = dev.graphql(query, key=["../dagster.yaml", "compute_logs", file_key])["data"]["capturedLogs"]
    assert nobody == {"stdout": None, "stderr": None}


def test_whatever_is_killed_the_work_goes_on(dev: Dev, recordings: dict[str, Path]) -> None:
    """The child, the supervisor, the daemon and the code servers, one after the other and then together."""
    dev.configure(render__mode='"encode"', render__preset='"veryslow"')
    shutil.copy(recordings["killed"], dev.library / "killed.mp4")
    eventually(lambda: (job := dev.job("killed.mp4")) is not None and job.run_id is not None, "it is being done")
    run = dev.job("killed.mp4").run_id
    first = eventually(lambda: getattr(dev.launch_queue.get(run), "pid", None), "a process works on it")
    for pid in dev.processes("dagster-daemon") + dev.processes("api grpc"):
        os.kill(pid, signal.SIGKILL)
    assert dev.launch_queue.get(run).pid == first, "a run does not need the daemon"
    os.kill(dev.supervisor_lock.holder().pid, signal.SIGKILL)
    for pid in dev.processes("dagster-daemon"):
        os.kill(pid, signal.SIGKILL)
    dev.configure()
    eventually(lambda: dev.is_done("killed.mp4"), "it ended right", LEASE_S + 90)
    eventually(lambda: "STARTED" not in dev.runs().values(), "no run stays started", 60)
    eventually(lambda: dev.cli("queue", "check").returncode == 0, "the check finds nothing, no draft left either")


def test_a_run_that_is_terminated_in_the_ui_ends_as_cancelled_with_its_job(
    dev: Dev, recordings: dict[str, Path], samples_folder: Path
) -> None:
    dev.configure(render__mode='"encode"', render__preset='"veryslow"')
    long = samples.recording(samples_folder, "long.mp4", seconds=60, size=(640, 360), bursts=((10, 12), (40, 42)))
    shutil.copy(long, dev.library / "long.mp4")
    eventually(lambda: (job := dev.job("long.mp4")) is not None and job.run_id is not None, "it is being done")
    run = dev.job("long.mp4").run_id
    eventually(lambda: dev.runs()[run] == "STARTED", "the run has started")  # before that, Dagster refuses
    child = dev.launch_queue.get(run).pid
    mutation = "mutation($id: String!) { terminateRun(runId: $id) { __typename } }"
    assert dev.graphql(mutation, id=run)["data"]["terminateRun"]["__typename"] == "TerminateRunSuccess"
    eventually(lambda: dev.runs()[run] == "CANCELED", "the run is cancelled", 20)
    eventually(lambda: dev.job("long.mp4").status is State.CANCELLED, "the job is cancelled", 20)
    assert not Path(f"/proc/{child}").exists()
    dev.configure()


def test_a_run_can_be_given_settings_in_the_launchpad_and_executed_again_with_them(
    dev: Dev, samples_folder: Path
) -> None:
    two = samples.recording(samples_folder, "two.mp4", seconds=40, bursts=((10, 11), (30, 31)))
    shutil.copy(two, dev.library / "pad.mp4")
    eventually(lambda: dev.is_done("pad.mp4"), "it is done by itself")
    before = dev.job("pad.mp4")
    refused = dev.launch_with(before.video_key, {"detections": {"rms_treshold": 0.15}})
    assert refused[0] is None and 'Received unexpected config entry "rms_treshold"' in refused[1][0]
    run, _ = dev.launch_with(before.video_key, {"detections": {"max_segments": 1}})
    eventually(lambda: dev.runs()[run] == "SUCCESS", "the run ended")
    eventually(lambda: dev.job("pad.mp4").run_id == run and dev.is_done("pad.mp4"), "its job, too")
    changed = dev.job("pad.mp4")
    assert changed.stage_keys["energy"] == before.stage_keys["energy"]
    assert changed.stage_keys["detections"] != before.stage_keys["detections"]
    shown = dev.cli("queue", "show", changed.job_id).stdout
    assert "asked for in one run" in shown and "output.max_segments 1" in shown
    again = dev.execute_again(run)
    eventually(lambda: dev.runs()[again] == "SUCCESS", "it ended again")
    eventually(lambda: dev.job("pad.mp4").run_id == again and dev.is_done("pad.mp4"), "its job, too")
    assert dev.job("pad.mp4").stage_keys == changed.stage_keys


def test_a_manifest_that_is_deleted_is_rebuilt_and_nothing_is_done_again(dev: Dev) -> None:
    before, runs = dev.job("slow.mp4"), dev.runs()
    for path in dev.state.glob("queue.db*"):
        path.unlink()
    eventually(lambda: dev.is_done("slow.mp4"), "the job is back", 90)
    after = dev.job("slow.mp4")
    assert (after.video_key, after.stage_keys, after.output_hashes) == (
        before.video_key,
        before.stage_keys,
        before.output_hashes,
    )
    assert set(dev.runs()) == set(runs)


def test_a_changed_threshold_shows_as_stale_and_the_nightly_backfill_re_decides_without_decoding(dev: Dev) -> None:
    key = dev.job("slow.mp4").video_key
    dev.configure(detection__rms_threshold="0.2", schedule__quiet_hours='"00:00-23:59"')
    eventually(lambda: dev.stale_status("detections", key) == "STALE", "the UI shows it as stale", 60)
    dev.launch("nightly_backfill")
    eventually(lambda: dev.stale_status("detections", key) == "FRESH", "it is fresh again", 90)
    eventually(lambda: dev.is_done("slow.mp4"), "it is done")
    job = dev.job("slow.mp4")
    assert {stage for stage, cost in job.cost.items() if not cost["reused"]} <= {"detections", "montage"}
    eventually(lambda: dev.backfills() == ["COMPLETED_SUCCESS"], "Dagster shows it as a backfill that succeeded", 60)


def test_two_daemons_on_one_instance_do_everything_once(dev: Dev, recordings: dict[str, Path]) -> None:
    with dev.second_daemon():
        shutil.copy(recordings["again"], dev.library / "again.mp4")
        eventually(lambda: dev.is_done("again.mp4"), "it is done")
    assert dev.job("again.mp4").claim_count == 1


@pytest.mark.skipif(not SIZE, reason="takes minutes: `make chaos`")
@pytest.mark.chaos_slice
@pytest.mark.timeout(1200)
def test_everything_is_killed_at_random_and_every_recording_is_done_once(dev: Dev, samples_folder: Path) -> None:
    dev.configure(queue__max_crashes="1000", render__mode='"encode"')
    names = [f"chaos{number}.mp4" for number in range(by_size(2, 12))]
    for number, name in enumerate(names):
        made = samples.recording(samples_folder, name, seconds=10 + number, size=(640, 360), bursts=((3, 4), (7, 8)))
        shutil.copy(made, dev.library / name)
    chance, until_s = random.Random(1), time.monotonic() + by_size(15, 180)
    while time.monotonic() < until_s and not all(dev.is_done(name) for name in names):
        let_time_pass(chance.uniform(0.5, 6), unless=lambda: all(dev.is_done(name) for name in names))
        kinds = {
            "child": [
                pid
                for run in dev.launch_queue.run_ids()
                if (launch := dev.launch_queue.get(run)) and (pid := launch.pid)
            ],
            "supervisor": [getattr(dev.supervisor_lock.holder(), "pid", None)],
            "daemon": dev.processes("dagster-daemon"),
            "code server": dev.processes("api grpc"),
            "UI": dev.processes("dagster_webserver"),
        }
        for kind in chance.sample(sorted(kinds), chance.choice((1, 1, 2, 5))):
            for pid in kinds[kind]:
                with contextlib.suppress(ProcessLookupError, TypeError):
                    os.kill(pid, signal.SIGKILL)
    for name in names:
        eventually(partial(dev.is_done, name), f"{name} ended right", 240)
    eventually(dev._answers, "the UI is back", 120)
    eventually(lambda: not {"STARTED", "STARTING", "CANCELING"} & set(dev.runs().values()), "no run is left", 120)
    eventually(lambda: dev.cli("queue", "check").returncode == 0, "the check finds nothing, no draft left either")
    for name in names:
        computed = eventually(partial(dev.computed, dev.job(name).video_key), f"the UI tells what was done of {name}")
        assert set(computed.values()) == {1}, f"{name}: {computed}"


def test_when_it_ends_no_process_and_no_draft_is_left(dev: Dev) -> None:
    """A code server whose parent was killed ends by itself, once it has looked twice for a sign of life."""
    dev.stop()
    eventually(lambda: not dev.processes(), lambda: f"every process has ended: {dev.commands()}", 180)
    assert list((dev.state / "artifacts" / ".drafts").glob("*")) == []
    assert "STARTED" not in str(dev.cli("queue", "status").stdout)

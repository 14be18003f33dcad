"""Processes die, stop and come back: what is left, what goes on, and how soon."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time

import pytest

from server import DRAFT_MODEL, MODEL, NGRAM, Process, Server, draft_model, free_ports, run, running_server, wait_until

ANSWER = {"model": "smol", "prompt": "Count: one, two, three, four, five, six, seven, eight, nine, ten. Count: one,",
          "temperature": 0, "max_tokens": 24, "ignore_eos": True, "return_token_ids": True}
LONG = {**ANSWER, "max_tokens": 120}
PEERS_LOST = 75


@contextlib.contextmanager
def started(*args, **options):
    """A server whose end the test brings about itself."""
    server = Server(*args, **options)
    try:
        yield server
    except BaseException:
        print(f"log:\n{server.log()[-6000:]}")
        raise
    finally:
        server.discard()


def stage_pids(server, stage):
    return server.pids(f"--worker-rank {stage} ")


class Stream:
    """A streamed answer that is read in the background; ids and the error event, if one came."""

    def __init__(self, server, body):
        self.ids, self.error, self.done, self.broken = [], None, False, None
        self.thread = threading.Thread(target=self._read, args=(server, body), daemon=True)
        self.thread.start()

    def _read(self, server, body):
        try:
            for event in server.stream("/v1/completions", body):
                if event == "DONE":
                    self.done = True
                elif "error" in event:
                    self.error = event["error"]
                else:
                    self.ids += event["choices"][0].get("token_ids", [])
        except Exception as error:  # what a lost connection looks like is up to the moment it is lost in
            self.broken = error

    def wait_for(self, count, seconds=30):
        wait_until(lambda: len(self.ids) >= count or not self.thread.is_alive(), seconds, f"{count} streamed ids")
        assert len(self.ids) >= count, (self.error, self.broken)

    def join(self, seconds=60):
        self.thread.join(seconds)
        assert not self.thread.is_alive(), "the stream neither went on nor ended"


@pytest.fixture(scope="module")
def plain_ids():
    """Ids of LONG from one plain process."""
    with running_server() as server:
        return server.post("/v1/completions", LONG)["choices"][0]["token_ids"]


# Stops


def test_sigterm_leaves_nothing_and_exits_with_0():
    with started("-pp", "2", "--speculative-config", NGRAM) as server:
        assert len(server.pids("paceline-")) == 4
        server.post("/v1/completions", ANSWER)
        server.stop()


def test_sigterm_lets_a_stream_finish_and_refuses_new_requests(plain_ids):
    with started("-pp", "2") as server:
        stream = Stream(server, LONG)
        stream.wait_for(3)
        server.signal(signal.SIGTERM)
        server.wait_for_log("draining")
        with contextlib.suppress(OSError):  # a closed door is a refusal as well
            assert server.request("POST", "/v1/completions", ANSWER)[0] == 503
        stream.join()
        assert stream.done and stream.ids == plain_ids
        assert server.wait(10) == 0
        server.assert_nothing_left()


def test_sigterm_without_patience_ends_streams_at_once():
    with started("-pp", "2", "--shutdown-timeout", "0") as server:
        stream = Stream(server, {**LONG, "max_tokens": 2000})
        stream.wait_for(3)
        server.signal(signal.SIGTERM)
        assert server.wait(5) == 0
        server.assert_nothing_left()
        stream.join(5)
        assert not stream.done


def test_a_second_signal_ends_the_drain():
    with started("-pp", "2") as server:
        stream = Stream(server, {**LONG, "max_tokens": 2000})
        stream.wait_for(3)
        server.signal(signal.SIGINT)
        server.wait_for_log("draining")
        server.signal(signal.SIGINT)
        server.wait(5)
        server.assert_nothing_left()


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "in_the_middle_of_an_answer"])
def test_B181_sigkill_of_serve_leaves_no_process_no_socket_and_no_shared_memory(busy):
    with started("-pp", "2", "--speculative-config", NGRAM) as server:
        if busy:
            Stream(server, {**LONG, "max_tokens": 2000}).wait_for(3)
        server.signal(signal.SIGKILL)
        server.wait(5)
        server.assert_nothing_left(seconds=5)


# Deaths


def test_a_dead_drafter_changes_no_token_and_comes_back(plain_ids):
    with running_server("-pp", "2", "--speculative-config", NGRAM) as server:
        stream = Stream(server, LONG)
        stream.wait_for(5)
        drafter, = server.pids("paceline-draft-worker")
        os.kill(drafter, signal.SIGKILL)
        stream.join()
        assert stream.done and stream.ids == plain_ids

        wait_until(lambda: [pid for pid in server.pids("paceline-draft-worker") if pid != drafter], 10, "a new drafter")
        drafted = server.metric("vllm:spec_decode_num_draft_tokens_total")

        def drafts_again():
            assert server.post("/v1/completions", LONG)["choices"][0]["token_ids"] == plain_ids
            return server.metric("vllm:spec_decode_num_draft_tokens_total") > drafted
        wait_until(drafts_again, 20, "drafts of the new drafter")


@pytest.mark.parametrize("stage", [0, 1])
def test_B190_a_dead_stage_ends_open_requests_by_its_name_and_comes_back(stage, plain_ids):
    with running_server("-pp", "2", "--speculative-config", NGRAM) as server:
        stream = Stream(server, {**LONG, "max_tokens": 2000})
        stream.wait_for(5)
        worker, = stage_pids(server, stage)
        killed_at = time.monotonic()
        os.kill(worker, signal.SIGKILL)
        stream.join(10)
        assert not stream.done and stream.error is not None, (stream.ids, stream.broken)
        assert f"stage {stage}" in stream.error["message"] or f"stage-{stage}" in stream.error["message"]

        server.wait_ready(10 - (time.monotonic() - killed_at))
        assert server.post("/v1/completions", LONG)["choices"][0]["token_ids"] == plain_ids


def test_B181_a_dead_coordinator_ends_everything_at_once_and_not_with_0():
    with started("-pp", "2", "--speculative-config", NGRAM) as server:
        coordinator, = server.pids("paceline-coordinator")
        os.kill(coordinator, signal.SIGKILL)
        assert server.wait(3) not in (0, None)
        server.assert_nothing_left(seconds=1)


def test_a_stage_that_dies_again_and_again_ends_the_server_and_is_named():
    with started("-pp", "2") as server:
        def kill_and_look():
            for pid in stage_pids(server, 1):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return server.process.poll() is not None
        wait_until(kill_and_look, 40, "the server gives up")
        assert server.process.returncode == PEERS_LOST
        assert "stage-1 died" in server.log()
        server.assert_nothing_left()


# Started by hand


def test_B199_processes_started_by_hand_in_any_order_form_a_group(plain_ids):
    port = free_ports(2)
    flags = [MODEL, "-pp", "2", "--distributed-executor-backend", "external_launcher", "--master-port", str(port),
             "--speculative-config", NGRAM, "--port", "0", "--served-model-name", "smol"]
    with contextlib.ExitStack() as stack:
        def start(name, *more):
            process = Process(name, *flags, *more)
            stack.callback(process.discard)
            return process
        workers = [start("paceline-stage-worker", "--worker-rank", "1"), start("paceline-draft-worker")]
        server = Server(*flags[1:], program_name="paceline-coordinator", ready=False)
        stack.callback(server.discard)
        assert server.request("GET", "/health")[0] == 503  # a stage is missing
        workers.append(start("paceline-stage-worker", "--worker-rank", "0"))
        server.wait_ready(20)
        server.wait_for_log("drafter_ready", 10)

        assert server.post("/v1/completions", LONG)["choices"][0]["token_ids"] == plain_ids
        assert server.metric("vllm:spec_decode_num_draft_tokens_total") > 0

        for process in [server, *workers]:
            process.stop()


def test_a_missing_stage_is_named_while_the_group_waits():
    port = free_ports(2)
    flags = ["-pp", "2", "--distributed-executor-backend", "external_launcher", "--master-port", str(port)]
    with started(*flags, program_name="paceline-coordinator", ready=False) as server:
        server.wait_for_log("waiting_for_group.*stage 0.*stage 1", 10)
        assert server.request("GET", "/health")[0] == 503
        status, body = server.request("POST", "/v1/completions", ANSWER)
        assert status == 503 and b"stage" in body
        server.stop()


@pytest.mark.parametrize("name, more, says", [
    ("paceline-stage-worker", ["--worker-rank", "0"], "no coordinator"),
    ("paceline-draft-worker", ["--speculative-config", NGRAM], "no coordinator"),
    ("paceline-coordinator", ["--port", "0"], "stage 1"),
])
def test_a_group_that_never_forms_ends_with_75_and_names_who_was_missing(name, more, says):
    port = free_ports(2)
    ended = run(name, MODEL, "-pp", "2", "--master-port", str(port), "--distributed-timeout-seconds", "2", *more,
                seconds=20)
    assert ended.returncode == PEERS_LOST
    assert says in ended.stdout + ended.stderr


# Two hosts


@pytest.fixture
def two_hosts():
    """Names of two network namespaces joined by a veth pair, 10.77.0.1 and 10.77.0.2."""
    if shutil.which("ip") is None:
        pytest.skip("no program `ip` (package iproute2)")
    names = [f"pl{os.getpid()}a", f"pl{os.getpid()}b"]

    def ip(*args):
        ended = subprocess.run(["ip", *args], capture_output=True, text=True, timeout=10, check=False)
        if ended.returncode != 0:
            pytest.skip(f"network namespaces cannot be made here: ip {' '.join(args)}: {ended.stderr.strip()}")
    try:
        for name in names:
            ip("netns", "add", name)
        ip("link", "add", "veth0", "netns", names[0], "type", "veth", "peer", "name", "veth0", "netns", names[1])
        for number, name in enumerate(names):
            ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "veth0")
            ip("-n", name, "link", "set", "veth0", "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, timeout=10, check=False)


def test_two_hosts_answer_as_one(two_hosts, plain_ids):
    flags = ["-pp", "2", "--nnodes", "2", "--master-addr", "10.77.0.1", "--fabric-insecure",
             "--speculative-config", NGRAM]
    inside = [["ip", "netns", "exec", name] for name in two_hosts]
    other = Process("paceline", "serve", MODEL, *flags, "--node-rank", "1", "--headless", prefix=inside[1])
    try:
        with in_namespace_server(flags, inside[0]) as server:
            ended = subprocess.run([*inside[0], "curl", "-s", "-m", "60", "-H", "content-type: application/json", "-d",
                                    json.dumps(LONG), f"http://127.0.0.1:{server.port}/v1/completions"],
                                   capture_output=True, text=True, timeout=70, check=True)
            assert json.loads(ended.stdout)["choices"][0]["token_ids"] == plain_ids
            server.stop()
        other.stop()
    finally:
        other.discard()


@contextlib.contextmanager
def in_namespace_server(flags, prefix):
    """Node 0; only programs inside its namespace reach its API, so readiness is read from the log."""
    with started(*flags, "--node-rank", "0", prefix=prefix, ready=False) as server:
        server.wait_for_log(r"\bready\b.*generation=", 30)
        yield server


# A real drafter


@pytest.mark.skipif(not DRAFT_MODEL.exists(), reason=f"no draft model at {DRAFT_MODEL}")
def test_a_dead_draft_model_changes_no_token(plain_ids):
    with running_server("-pp", "2", "--speculative-config", draft_model()) as server:
        stream = Stream(server, LONG)
        stream.wait_for(5)
        drafter, = server.pids("paceline-draft-worker")
        os.kill(drafter, signal.SIGKILL)
        stream.join()
        assert stream.done and stream.ids == plain_ids

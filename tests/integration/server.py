"""Starts the real programs, talks to them, stops them, and proves that nothing of them is left.

A `Server` is one `paceline serve` in a session of its own, so that every process it ever starts can be found again by
its session number, whatever became of its parents. Each has a runtime folder and a log file of its own.

    with running_server("-pp", "2") as server:
        server.post("/v1/completions", {"model": server.model, "prompt": "Once", "max_tokens": 4})
    # here: exit code 0, no process, no socket, no shared memory
"""

import contextlib
import ctypes
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("PACELINE_BIN_DIR", ROOT / "build" / "release" / "bin"))
MODEL = pathlib.Path(os.environ.get("PACELINE_TEST_MODEL", ROOT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"))
SHARED = pathlib.Path(os.environ.get("PACELINE_SHARED", ROOT.parent / "shared"))
DRAFT_MODEL = SHARED / "models" / "smollm2-135m-draft" / "smollm2-135m-draft-Q4_1.gguf"
READY_SECONDS = 60
STOP_SECONDS = 10

NGRAM = json.dumps({"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 1, "prompt_lookup_max": 4})


def draft_model(path=DRAFT_MODEL, k=3, sampling="greedy"):
    return json.dumps({"method": "draft_model", "model": str(path), "num_speculative_tokens": k,
                       "draft_sample_method": sampling})


def program(name):
    path = BIN / name
    assert path.exists(), f"{path} is missing; build it, or set PACELINE_BIN_DIR"
    return str(path)


def clean_environment(**more):
    """This process's environment without PACELINE_ variables: an unknown one is refused, a known one changes the test."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PACELINE_")}
    env.update(more)
    return env


def run(name, *args, env=None, seconds=10):
    """Runs a program that is expected to end by itself; `seconds` is part of what is tested."""
    return subprocess.run([program(name), *map(str, args)], env=clean_environment(**(env or {})), text=True,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds, check=False)


def wait_until(condition, seconds, what):
    """Polls until `condition` gives something true, which is returned."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def session_processes(session):
    """{pid: command line} of the session's processes; zombies are dead already."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            stat = pathlib.Path("/proc", entry, "stat").read_text()
            fields = stat[stat.rindex(")") + 2:].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                found[int(entry)] = pathlib.Path("/proc", entry, "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            pass  # ended meanwhile
    return found


def shared_memory_files():
    return {name for name in os.listdir("/dev/shm") if "paceline" in name}


def end_with_this_process():
    """Runs in the child: when the test run is killed, its servers get SIGTERM instead of staying."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


class Process:
    """One started program in a session, a runtime folder and a log file of its own."""

    def __init__(self, name, *args, env=None, prefix=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="pl-"))  # short: socket paths have 107 characters
        self.runtime = self.folder / "run"
        self.runtime.mkdir(mode=0o700)
        self.log_path = self.folder / "log"
        self.shared_memory_before = shared_memory_files()
        env = clean_environment(XDG_RUNTIME_DIR=str(self.runtime), **(env or {}))
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([*prefix, program(name), *map(str, args)], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=subprocess.STDOUT, env=env, start_new_session=True,
                                            preexec_fn=end_with_this_process)
        self.session = self.process.pid

    def log(self):
        return self.log_path.read_text(errors="replace")

    def wait_for_log(self, pattern, seconds=READY_SECONDS):
        """The first match of `pattern` in the log."""
        def look():
            found = re.search(pattern, self.log())
            if not found and self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode} before '{pattern}':\n{self.log()[-4000:]}")
            return found
        return wait_until(look, seconds, f"'{pattern}' in the log")

    def pids(self, word):
        """Processes of the session whose command line holds `word`."""
        return [pid for pid, command in session_processes(self.session).items() if word in command]

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds):
        return self.process.wait(seconds)

    def assert_nothing_left(self, seconds=5):
        wait_until(lambda: not session_processes(self.session), seconds,
                   f"end of {session_processes(self.session)}")
        wait_until(lambda: not os.listdir(self.runtime), max(1, seconds / 2),
                   f"empty runtime folder, found {[str(p) for p in self.runtime.rglob('*')]}")
        assert str(self.folder) not in pathlib.Path("/proc/net/unix").read_text()
        assert shared_memory_files() <= self.shared_memory_before

    def stop(self, seconds=STOP_SECONDS):
        """SIGTERM, exit code 0, nothing left."""
        self.signal(signal.SIGTERM)
        code = self.wait(seconds)
        assert code == 0, f"exit code {code}:\n{self.log()[-4000:]}"
        self.assert_nothing_left()

    def discard(self):
        """Ends what a failed test left, by the session's own process numbers, and removes the folder."""
        for pid in session_processes(self.session):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(5)
        shutil.rmtree(self.folder, ignore_errors=True)


class Server(Process):
    """A `paceline serve` that answers. `model` is the name to ask for."""

    def __init__(self, *args, model=None, env=None, program_name="paceline", prefix=(), ready=True, host="127.0.0.1"):
        command = ["serve"] if program_name == "paceline" else []
        super().__init__(program_name, *command, model or MODEL, "--port", "0", "--served-model-name", "smol", *args,
                         env=env, prefix=prefix)
        self.model = "smol"
        self.host = host
        try:
            self.port = int(self.wait_for_log(r"api_listening.*? port=(\d+)").group(1))
            if ready:
                self.wait_ready()
        except BaseException:
            self.discard()
            raise
        self.url = f"http://{host}:{self.port}"

    def wait_ready(self, seconds=READY_SECONDS):
        def ready():
            assert self.process.poll() is None, f"ended with {self.process.returncode}:\n{self.log()[-4000:]}"
            with contextlib.suppress(OSError, http.client.HTTPException):
                return self.request("GET", "/health", seconds=5)[0] == 200
            return False
        wait_until(ready, seconds, f"GET /health 200; the log ends with\n{self.log()[-2000:]}")

    def connect(self, seconds=120):
        return http.client.HTTPConnection(self.host, self.port, timeout=seconds)

    def request(self, method, path, body=None, seconds=120):
        connection = self.connect(seconds)
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, {"content-type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def post(self, path, body, seconds=120):
        status, text = self.request("POST", path, body, seconds)
        assert status == 200, (status, text)
        return json.loads(text)

    def stream(self, path, body, seconds=120):
        """Yields the events of a streamed answer as they come; 'DONE' stands for the last one."""
        connection = self.connect(seconds)
        try:
            connection.request("POST", path, json.dumps({**body, "stream": True}), {"content-type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200, (answer.status, answer.read())
            for line in answer:
                if line.startswith(b"data: "):
                    data = line[6:].strip()
                    yield "DONE" if data == b"[DONE]" else json.loads(data)
        finally:
            connection.close()

    def metric(self, name):
        """Sum of a metric over its labels."""
        text = self.request("GET", "/metrics")[1].decode()
        values = re.findall(rf"^{re.escape(name)}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        assert values, f"no metric {name}"
        return sum(float(value) for value in values)


@contextlib.contextmanager
def running_server(*args, **options):
    server = Server(*args, **options)
    try:
        yield server
        server.stop()
    except BaseException:
        print(f"log of {args}:\n{server.log()[-6000:]}", file=sys.stderr)
        raise
    finally:
        server.discard()


def free_ports(count):
    """The first of `count` free ports in a row. Somebody else may take them before they are used: so ask late."""
    for _ in range(100):
        with contextlib.ExitStack() as stack:
            try:
                first = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
                for port in range(first + 1, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
                return first
            except OSError:
                continue
    raise AssertionError("no free ports")

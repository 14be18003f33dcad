"""The command people type: chat on a terminal, plan, inspect, help, and where settings come from."""

import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import subprocess
import termios

import pytest

from server import MODEL, NGRAM, clean_environment, program, run, running_server, session_processes, wait_until

CONFIG = 78


class Terminal:
    """A program on a terminal of its own: what it prints, and keys typed to it."""

    def __init__(self, *args):
        master, slave = pty.openpty()
        self.process = subprocess.Popen([program("paceline"), *map(str, args)], stdin=slave, stdout=slave, stderr=slave,
                                        env=clean_environment(TERM="dumb"), preexec_fn=self._take_terminal)
        os.close(slave)
        self.master, self.text = master, ""

    @staticmethod
    def _take_terminal():
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that ctrl-C becomes SIGINT

    def read(self, seconds=0.05):
        with contextlib.suppress(OSError):  # the terminal's other end is closed
            while select.select([self.master], [], [], seconds)[0]:
                data = os.read(self.master, 65536)
                if not data:
                    break
                self.text += data.decode(errors="replace").replace("\r", "")
                seconds = 0

    def type(self, keys):
        os.write(self.master, keys.encode())

    def wait_for(self, pattern, seconds=60):
        """Text up to the end of the match, which is taken out of what is still to be looked at."""
        def look():
            self.read()
            return re.search(pattern, self.text)
        found = wait_until(look, seconds, f"'{pattern}' on the terminal, which shows\n{self.text}")
        before, self.text = self.text[:found.end()], self.text[found.end():]
        return before

    def close(self):
        for pid in session_processes(self.process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(5)
        os.close(self.master)


@contextlib.contextmanager
def terminal(*args):
    made = Terminal(*args)
    try:
        yield made
    finally:
        made.close()


@pytest.fixture(scope="module")
def server():
    with running_server("-pp", "2", "--speculative-config", NGRAM) as running:
        yield running


# chat


def test_chat_answers_one_prompt_of_a_running_server(server):
    ended = run("paceline", "chat", "--url", server.url, "--prompt", "Say hello.", "--max-tokens", "8",
                "--temperature", "0", seconds=60)
    assert ended.returncode == 0 and ended.stdout.strip()
    assert re.search(r"\[8 tokens, first after [\d.]+ s, [\d.]+ tokens/s", ended.stderr)


def test_chat_starts_a_model_in_place_and_leaves_nothing():
    before = set(os.listdir("/tmp"))
    ended = run("paceline", "chat", MODEL, "-pp", "2", "--prompt", "Say hello.", "--max-tokens", "8",
                "--temperature", "0", seconds=90)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.strip()
    left = {name for name in set(os.listdir("/tmp")) - before if name.startswith("paceline-chat-")}
    assert not left


def test_chat_reads_lines_and_remembers_the_conversation(server):
    ended = subprocess.run([program("paceline"), "chat", "--url", server.url, "--max-tokens", "6", "--temperature", "0"],
                           input="My name is Ada.\n\nWhat is my name?\n", env=clean_environment(), text=True,
                           capture_output=True, timeout=60, check=False)
    assert ended.returncode == 0
    assert ended.stderr.count(" tokens, first after") == 2


@pytest.mark.parametrize("place", ["url", "in place"])
def test_ctrl_c_stops_the_answer_and_not_the_program(server, place):
    where = ["--url", server.url] if place == "url" else [MODEL]
    with terminal("chat", *where, "--temperature", "0", "--max-tokens", "400") as chat:
        chat.wait_for("> $", 60)
        chat.type("Write a very long story about the sea.\n")
        chat.wait_for(r"sea\.\n.*\w{3}", 60)

        chat.type("\x03")

        chat.wait_for(r"\(stopped\)", 10)
        chat.wait_for("> $", 10)
        if place == "url":
            wait_until(lambda: server.metric("vllm:num_requests_running") == 0, 5, "the request is cancelled")
        chat.type("Say yes.\n")
        chat.wait_for("tokens, first after", 60)
        chat.wait_for("> $", 10)
        chat.type("\x04")
        wait_until(lambda: chat.read() or chat.process.poll() is not None, 10, "ctrl-D ends the program")
        assert chat.process.returncode == 0
        wait_until(lambda: not session_processes(chat.process.pid), 5, "no process left")


def test_ctrl_c_while_nothing_is_answered_keeps_the_prompt(server):
    with terminal("chat", "--url", server.url, "--temperature", "0", "--max-tokens", "8") as chat:
        chat.wait_for("> $")
        chat.type("half a line\x03")
        chat.wait_for(r"\n> $", 10)
        chat.type("Say yes.\n")
        chat.wait_for("tokens, first after", 60)


def test_chat_without_a_server_says_where_it_looked():
    ended = run("paceline", "chat", "--url", "http://127.0.0.1:9", "--prompt", "x")
    assert ended.returncode != 0 and "127.0.0.1:9" in ended.stderr


def test_chat_in_place_with_a_missing_model_names_it_and_ends():
    ended = run("paceline", "chat", "/absent.gguf", "--prompt", "x")
    assert ended.returncode == CONFIG and "/absent.gguf" in ended.stdout + ended.stderr


# plan, inspect


def test_plan_shows_layers_and_memory_of_each_stage():
    as_json = json.loads(run("paceline", "plan", MODEL, "-pp", "4", "--output", "json").stdout)
    assert as_json["num_layers"] == 30 and len(as_json["stages"]) == 4
    assert as_json["stages"][0]["first_layer"] == 0 and as_json["stages"][-1]["end_layer"] == 30
    for before, after in zip(as_json["stages"], as_json["stages"][1:]):
        assert before["end_layer"] == after["first_layer"]
    as_text = run("paceline", "plan", MODEL, "-pp", "4")
    assert as_text.returncode == 0 and "30 layers over 4 stages" in as_text.stdout


def test_B076_an_even_partition_differs_by_at_most_one():
    plan = json.loads(run("paceline", "plan", MODEL, "-pp", "4", "--pipeline-layer-partition", "even",
                          "--output", "json").stdout)
    sizes = [stage["end_layer"] - stage["first_layer"] for stage in plan["stages"]]
    assert sum(sizes) == 30 and sorted(sizes) == [7, 7, 8, 8]


def test_a_plan_that_cannot_fit_exits_with_78_and_the_numbers():
    ended = run("paceline", "plan", MODEL, "--kv-cache-memory-bytes", "100000")
    assert ended.returncode == CONFIG and re.search(r"\d", ended.stderr)


def test_inspect_model_lists_tensors_tokenizer_and_template():
    found = json.loads(run("paceline", "inspect", "model", MODEL, "--output", "json").stdout)
    assert found["config"]["architecture"] == "llama" and found["config"]["num_layers"] == 30
    assert found["text"]["vocab_size"] == 49152 and found["text"]["chat_template"] == "ok"
    names = {tensor["file_name"]: tensor for tensor in found["tensors"]}
    assert names["blk.29.attn_q.weight"]["rows"] == 576
    as_text = run("paceline", "inspect", "model", MODEL)
    assert as_text.returncode == 0 and "blk.29.attn_q.weight" in as_text.stdout


# Settings


def origins(*args, env=None):
    ended = run("paceline", "inspect", "config", *args, "--output", "json", env=env)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_the_command_line_wins_over_environment_over_file_over_default(tmp_path):
    file = tmp_path / "paceline.yaml"
    file.write_text("max-num-seqs: 3\nmax_model_len: 2k\nblock-size: 32\n")
    found = origins(MODEL, "--config", file, "--max-num-seqs", "5",
                    env={"PACELINE_MAX_NUM_SEQS": "4", "PACELINE_MAX_MODEL_LEN": "1k"})
    assert [found[name]["value"] for name in ("max-num-seqs", "max-model-len", "block-size")] == [5, 1000, 32]
    assert found["max-num-seqs"]["origin"] == "command line"
    assert found["max-model-len"]["origin"] == "environment PACELINE_MAX_MODEL_LEN"
    assert found["block-size"]["origin"] == f"{file}:3"


def test_the_environment_may_name_the_file(tmp_path):
    file = tmp_path / "paceline.yaml"
    file.write_text("speculative-config:\n  method: ngram\n  num_speculative_tokens: 3\n")
    found = origins(MODEL, "--speculative-config.num_speculative_tokens", "5", env={"PACELINE_CONFIG": str(file)})
    assert found["speculative-config"]["value"] == {"method": "ngram", "num_speculative_tokens": 5}


def test_a_server_follows_its_file(tmp_path):
    file = tmp_path / "paceline.yaml"
    file.write_text(f"model: {MODEL}\nmax-model-len: 256\n")
    with running_server("--config", file) as server:
        assert json.loads(server.request("GET", "/v1/models")[1])["data"][0]["max_model_len"] == 256


@pytest.mark.parametrize("text, line, says", [
    ("block-size: 16\nmax-num-sequences: 4\n", 2, "max-num-seqs"),
    ("block-size: 16\nblock_size: 32\n", 2, "block"),
    ("enforce-eager: yes\n", 1, "true"),
    ("block-size: [1\n", 2, ""),
])
def test_a_bad_file_is_refused_with_its_line(tmp_path, text, line, says):
    file = tmp_path / "paceline.yaml"
    file.write_text(text)
    ended = run("paceline", "plan", MODEL, "--config", file)
    assert ended.returncode == CONFIG
    assert re.search(rf"\b{line}\b", ended.stderr.replace(str(tmp_path), "")) and says in ended.stderr


@pytest.mark.parametrize("env, says", [
    ({"PACELINE_MAX_NUM_SEQ": "4"}, "max-num-seqs"),
    ({"PACELINE_SERVICE_HOST": "10.0.0.1"}, "enableServiceLinks"),
    ({"PACELINE_PORT": "tcp://10.0.0.1:8000"}, "enableServiceLinks"),
    ({"PACELINE_BLOCK_SIZE": "7"}, "block"),
])
def test_a_bad_environment_is_refused(env, says):
    ended = run("paceline", "plan", MODEL, env=env)
    assert ended.returncode == CONFIG and says in ended.stderr


def test_variables_of_another_server_are_not_read_and_their_twins_named():
    ended = run("paceline", "serve", "/absent.gguf", env={"VLLM_MAX_NUM_SEQS": "no number"})
    assert "VLLM_MAX_NUM_SEQS is not read" in ended.stderr + ended.stdout
    assert "PACELINE_MAX_NUM_SEQS" in ended.stderr + ended.stdout


# Help


def test_help_names_commands_and_flags_with_default_variable_and_key():
    assert "paceline serve MODEL" in run("paceline", "--help").stdout
    for name, command in (("paceline", ["serve"]), ("paceline-coordinator", []), ("paceline-stage-worker", []),
                          ("paceline-draft-worker", [])):
        ended = run(name, *command, "--help")
        assert ended.returncode == 0
        assert re.search(r"--block-size .*\n +default 16; PACELINE_BLOCK_SIZE; YAML block-size", ended.stdout)


@pytest.mark.parametrize("command", ["chat", "plan", "inspect"])
def test_help_of_each_command_is_help(command):
    ended = run("paceline", command, "--help")
    assert ended.returncode == 0, ended.stderr
    assert f"paceline {command}" in ended.stdout


@pytest.mark.parametrize("name", ["paceline", "paceline-coordinator", "paceline-stage-worker", "paceline-draft-worker"])
def test_version_names_build_and_protocol(name):
    ended = run(name, "--version")
    assert ended.returncode == 0
    assert re.fullmatch(rf"{name} \d+\.\d+\.\d+ build \S+ protocol \d+\.\d+\n", ended.stdout)


def test_an_unknown_command_names_the_known_ones():
    ended = run("paceline", "server")
    assert ended.returncode == CONFIG and "serve" in ended.stderr


def test_no_command_at_all_shows_the_usage_and_is_refused():
    ended = run("paceline")
    assert ended.returncode == CONFIG and "paceline serve MODEL" in ended.stderr

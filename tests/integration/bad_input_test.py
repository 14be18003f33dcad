"""What a user can get wrong at start: each a clear message and the right exit code, within seconds and with nothing left.

The weights are the real model's; damaged ones are made from it. No test loads more than the header of a file.
"""

import os
import shutil
import socket
import struct

import pytest

from server import DRAFT_MODEL, MODEL, NGRAM, Process, draft_model, run, running_server

CONFIG = 78
SECONDS = 10


def serve_fails(*args, env=None, code=CONFIG, says=()):
    """`paceline serve ARGS` ends with `code` in time, its log holds every word of `says`, and nothing is left."""
    process = Process("paceline", "serve", *args, env=env)
    try:
        found = process.wait(SECONDS)
        log = process.log()
        assert found == code, f"exit code {found} (negative: killed by that signal):\n{log}"
        for word in says:
            assert str(word) in log, f"want '{word}' in:\n{log}"
        process.assert_nothing_left()
        return log
    finally:
        process.discard()


@pytest.fixture
def damaged(tmp_path):
    """Makes a copy of the model's first bytes with bytes replaced; the file keeps its length as a hole."""
    def make(cut_to=None, replace=()):
        path = tmp_path / "damaged.gguf"
        with open(MODEL, "rb") as source, open(path, "wb") as out:
            out.write(source.read(4 << 20))
        os.truncate(path, MODEL.stat().st_size)
        with open(path, "r+b") as out:
            for offset, data in replace:
                out.seek(offset)
                out.write(data)
        if cut_to is not None:
            os.truncate(path, cut_to)
        return path
    return make


# The model


def test_a_missing_file_is_refused_by_its_name(tmp_path):
    serve_fails(tmp_path / "absent.gguf", says=["absent.gguf"])


def test_a_model_that_is_not_in_the_cache_is_refused_and_not_downloaded(tmp_path):
    serve_fails("someone/no-such-model", env={"HF_HOME": str(tmp_path)}, says=["someone/no-such-model"])


def test_no_model_at_all_is_refused():
    serve_fails(says=["MODEL"])


def test_an_empty_folder_is_no_model(tmp_path):
    serve_fails(tmp_path, says=[tmp_path])


@pytest.mark.parametrize("length", [0, 3, 4, 12, 23, 24, 100, 1000, 100_000, 1_500_000])
def test_a_cut_gguf_is_refused(damaged, length):
    serve_fails(damaged(cut_to=length), says=["damaged.gguf"])


def test_a_gguf_without_its_last_byte_is_refused(damaged):
    serve_fails(damaged(cut_to=MODEL.stat().st_size - 1), says=["damaged.gguf"])


@pytest.mark.parametrize("offset, data, says", [
    (0, b"GGML", "GGUF"),
    (4, struct.pack("<I", 99), "99"),
    (8, struct.pack("<Q", 2**63), ""),
    (8, struct.pack("<Q", 0), ""),
    (16, struct.pack("<Q", 2**60), ""),
    (24, struct.pack("<Q", 2**64 - 1), ""),
], ids=["magic", "version", "tensors_2^63", "no_tensors", "entries_2^60", "key_length"])
def test_a_damaged_header_is_refused(damaged, offset, data, says):
    serve_fails(damaged(replace=[(offset, data)]), says=["damaged.gguf", says])


def test_an_unknown_architecture_is_refused_by_its_name(damaged):
    head = MODEL.read_bytes()[:1 << 20]
    key = b"general.architecture"
    value = head.index(key) + len(key) + 4 + 8
    assert head[value:value + 5] == b"llama"
    serve_fails(damaged(replace=[(value, b"lllll")]), says=["lllll"])


def test_a_tensor_of_an_unknown_type_is_refused_by_its_name(damaged):
    head = MODEL.read_bytes()[:4 << 20]
    name = b"blk.0.attn_q.weight"
    after = head.index(name) + len(name)
    dims = struct.unpack_from("<I", head, after)[0]
    serve_fails(damaged(replace=[(after + 4 + 8 * dims, struct.pack("<I", 200))]), says=["blk.0.attn_q.weight"])


def test_a_tensor_that_has_another_name_is_missed_by_the_right_one(damaged):
    offset = MODEL.read_bytes()[:4 << 20].index(b"blk.7.ffn_up.weight")
    serve_fails(damaged(replace=[(offset, b"blk.7.ffn_uq.weight")]), says=["blk.7.ffn_u"])


# The layout


def test_B077_more_stages_than_layers_names_both_numbers():
    serve_fails(MODEL, "-pp", "31", says=["31", "30"])


def test_no_stage_at_all_is_refused():
    serve_fails(MODEL, "-pp", "0", says=["pipeline-parallel-size"])


def test_a_partition_that_does_not_add_up_names_both_numbers():
    serve_fails(MODEL, "-pp", "2", "--pipeline-layer-partition", "10,10", says=["20", "30"])


def test_B194_a_tensor_parallel_size_is_refused_with_what_is_possible():
    serve_fails(MODEL, "-tp", "7", says=["tensor-parallel-size"])


# The drafter


def test_B037_a_draft_of_another_vocabulary_is_refused(tmp_path):
    vocabulary = other_vocabulary(tmp_path)
    serve_fails(MODEL, "-pp", "2", "--speculative-config", draft_model(vocabulary), says=["vocabular"])


def other_vocabulary(folder):
    """The draft model with one token's text changed: equal in size, different in one id."""
    if not DRAFT_MODEL.exists():
        pytest.skip(f"no draft model at {DRAFT_MODEL}")
    path = folder / "other.gguf"
    shutil.copyfile(DRAFT_MODEL, path)
    path.chmod(0o600)
    with open(path, "r+b") as out:
        head = out.read(4 << 20)
        # Entries of the token list: a length of 8 bytes, then the text. Two words of a length change places.
        word = head.index(struct.pack("<Q", 6) + "\u0120this".encode())
        out.seek(word + 8)
        out.write("\u0120thjs".encode())
    return path


@pytest.mark.parametrize("config, says", [
    ("{", "speculative-config"),
    ('{"method":"ngram"}', "num_speculative_tokens"),
    ('{"method":"ngarm","num_speculative_tokens":3}', "ngarm"),
    ('{"method":"ngram","num_speculative_tokens":129}', "129"),
    ('{"method":"ngram","num_speculative_tokens":3,"model":"x"}', "model"),
    ('{"method":"ngram","num_speculative_tokens":3,"tensor_parallel_size":1}', "draft_tensor_parallel_size"),
    ('{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_min":5,"prompt_lookup_max":2}', "prompt_lookup_min"),
    ('{"method":"draft_model","num_speculative_tokens":3}', "model"),
    ('{"method":"draft_model","num_speculative_tokens":3,"model":"/absent.gguf"}', "/absent.gguf"),
    ('{"method":"ngram","num_speculative_tokens":3,"rejection_sample_method":"block"}', "block"),
])
def test_B070_a_bad_speculative_config_is_refused_before_any_process_starts(config, says):
    log = serve_fails(MODEL, "-pp", "2", "--speculative-config", config, says=[says])
    assert "process_started" not in log


# Flags


@pytest.mark.parametrize("args, says", [
    (["--pipline-parallel-size", "2"], ["pipline-parallel-size", "--pipeline-parallel-size"]),
    (["--tp", "2"], ["--tensor-parallel-size"]),
    (["--ctx-size", "100"], ["--max-model-len"]),
    (["-ub", "100"], ["--max-num-batched-tokens"]),
    (["-md", "x.gguf"], ["--speculative-config"]),
    (["--port", "70000"], ["port", "70000"]),
    (["--max-num-seqs", "many"], ["max-num-seqs", "many"]),
    (["--block-size", "7"], ["block-size", "7"]),
    (["--max-model-len", "100000"], ["max-model-len", "8192"]),
    (["--host", "0.0.0.0"], ["api-key"]),
    (["--kv-cache-memory-bytes", "1000"], ["kv"]),
    (["-pp", "2", "--nnodes", "2"], ["127.0.0.1"]),
    (["--distributed-executor-backend", "ray"], ["ray"]),
])
def test_a_flag_that_cannot_be_honoured_is_refused_with_what_to_write(args, says):
    serve_fails(MODEL, *args, says=says)


def test_a_port_in_use_is_refused_by_its_number_and_ends_the_workers():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = Process("paceline", "serve", MODEL, "-pp", "2", "--port", str(port), "--speculative-config", NGRAM)
        try:
            code = process.wait(SECONDS)
            assert code in (75, CONFIG), f"{code}\n{process.log()}"
            assert str(port) in process.log() and "in use" in process.log()
            process.assert_nothing_left()
        finally:
            process.discard()


def test_a_second_server_on_the_port_of_the_first_does_not_disturb_it():
    with running_server() as first:
        second = Process("paceline", "serve", MODEL, "--port", str(first.port))
        try:
            assert second.wait(SECONDS) != 0
            second.assert_nothing_left()
        finally:
            second.discard()
        assert first.post("/v1/completions", {"model": "smol", "prompt": "Hi", "max_tokens": 1})["choices"]


@pytest.mark.parametrize("name", ["paceline-coordinator", "paceline-stage-worker", "paceline-draft-worker"])
def test_the_other_programs_refuse_too(name):
    assert run(name, "/absent.gguf", "--unknown-flag", "1", seconds=SECONDS).returncode == CONFIG
    assert run(name, "/absent.gguf", "--worker-rank", "0", "--speculative-config", NGRAM,
               seconds=SECONDS).returncode == CONFIG


def test_a_worker_rank_beyond_the_stages_is_refused():
    ended = run("paceline-stage-worker", MODEL, "-pp", "2", "--worker-rank", "2", seconds=SECONDS)
    assert ended.returncode == CONFIG and "worker-rank" in ended.stdout + ended.stderr

"""Stages, drafts and chunks change no token and no log probability of the real model.

Every cell is one server with its own mix of stages, drafter and chunk size; it answers the same requests as one plain
process, all at once, and ids and log probabilities must be equal to the last bit. PACELINE_FULL=1 takes 20 prompts
and both ways of sampling in every cell instead of 4 prompts and one.
"""

import concurrent.futures
import json
import os

import pytest

from server import DRAFT_MODEL, MODEL, NGRAM, SHARED, draft_model, running_server

PROMPTS_FILE = SHARED / "data" / "spec_bench.jsonl"
FULL = os.environ.get("PACELINE_FULL") == "1"
TOKENS = 32

GREEDY = {"temperature": 0}
SEEDED = {"temperature": 0.8, "top_p": 0.9, "seed": 1234, "presence_penalty": 0.4, "frequency_penalty": 0.2,
          "repetition_penalty": 1.05}

# name: flags, sampling. Pairwise over stages x drafter x sampling x chunk.
CELLS = {
    "pp1_ngram_greedy": (["-pp", "1", "--speculative-config", NGRAM], GREEDY),
    "pp1_draft_seeded_chunk64": (["-pp", "1", "--speculative-config", draft_model(),
                                  "--max-num-batched-tokens", "64"], SEEDED),
    "pp2_none_seeded_chunk48": (["-pp", "2", "--max-num-batched-tokens", "48"], SEEDED),
    "pp2_ngram_seeded": (["-pp", "2", "--speculative-config", NGRAM], SEEDED),
    "pp2_draft_greedy_chunk128": (["-pp", "2", "--speculative-config", draft_model(k=5),
                                   "--max-num-batched-tokens", "128"], GREEDY),
    "pp3_none_greedy": (["-pp", "3"], GREEDY),
    "pp3_ngram_greedy_chunk64": (["-pp", "3", "--speculative-config", NGRAM, "--max-num-batched-tokens", "64"],
                                 GREEDY),
    "pp3_draft_probabilistic_seeded": (["-pp", "3", "--speculative-config",
                                        draft_model(k=2, sampling="probabilistic")], SEEDED),
}


def prompts(count, category=None, characters_max=1200):
    """The first `count` short prompts, one category after the other, of the question ids that may be tuned on."""
    if not PROMPTS_FILE.exists():
        pytest.skip(f"no prompts at {PROMPTS_FILE}")
    by_category = {}
    for line in PROMPTS_FILE.read_text().splitlines():
        question = json.loads(line)
        text = question["turns"][0]
        if question["question_id"] % 10 in (0, 9) or not 60 <= len(text) <= characters_max:
            continue
        if category in (None, question["category"]):
            by_category.setdefault(question["category"], []).append(text)
    rounds = max(map(len, by_category.values()))
    return [texts[i] for i in range(rounds) for texts in by_category.values() if i < len(texts)][:count]


def ask(server, text, sampling, tokens=TOKENS):
    """(ids, log probabilities, finish reason, usage) of one answer."""
    answer = server.post("/v1/chat/completions", {
        "model": server.model, "messages": [{"role": "user", "content": text}], "max_tokens": tokens,
        "logprobs": True, "return_token_ids": True, **sampling}, seconds=240)
    choice = answer["choices"][0]
    values = [entry["logprob"] for entry in choice["logprobs"]["content"]]
    return choice["token_ids"], values, choice["finish_reason"], answer["usage"]


def ask_all(server, texts, sampling, tokens=TOKENS):
    """All prompts at once, so that rows of several requests share a step."""
    with concurrent.futures.ThreadPoolExecutor(len(texts)) as pool:
        return list(pool.map(lambda text: ask(server, text, sampling, tokens), texts))


@pytest.fixture(scope="module")
def texts():
    return prompts(20 if FULL else 4, characters_max=2500 if FULL else 600)


@pytest.fixture(scope="module")
def plain(texts):
    """What one process without drafts answers, one request after the other."""
    with running_server("-pp", "1") as server:
        return {name: [ask(server, text, sampling) for text in texts]
                for name, sampling in (("greedy", GREEDY), ("seeded", SEEDED))}


@pytest.mark.parametrize("cell", CELLS)
def test_ids_and_logprobs_equal_those_of_one_plain_process(cell, texts, plain):
    flags, sampling = CELLS[cell]
    if "draft" in cell and not DRAFT_MODEL.exists():
        pytest.skip(f"no draft model at {DRAFT_MODEL}")
    samplings = {"greedy": GREEDY, "seeded": SEEDED} if FULL else {
        "greedy" if sampling is GREEDY else "seeded": sampling}
    with running_server(*flags) as server:
        for name, fields in samplings.items():
            found = ask_all(server, texts, fields)
            for text, (ids, values, reason, _), want in zip(texts, found, plain[name]):
                assert (ids, reason) == (want[0], want[2]), f"{cell}, {name}, prompt: {text[:80]}"
                assert values == want[1], f"{cell}, {name}, prompt: {text[:80]}"
        drafted = server.metric("vllm:spec_decode_num_draft_tokens_total")
        assert (drafted > 0) == ("none" not in cell), f"{drafted} drafted tokens"


@pytest.mark.parametrize("sampling, drafts", [(GREEDY, "greedy"), (SEEDED, "probabilistic")],
                         ids=["greedy", "seeded_probabilistic"])
def test_a_draft_equal_to_the_target_has_every_draft_accepted(texts, plain, sampling, drafts):
    # Such a drafter is slower than any stage, so stage 0 must be told to wait for it.
    flags = ["-pp", "2", "--draft-wait-share", "100", "--speculative-config",
             draft_model(MODEL, k=3, sampling=drafts)]
    with running_server(*flags) as server:
        found = ask_all(server, texts, sampling)
        usage = [answer[3]["completion_tokens_details"] for answer in found]
        accepted = sum(details["accepted_prediction_tokens"] for details in usage)
        rejected = sum(details["rejected_prediction_tokens"] for details in usage)
    assert rejected == 0
    assert accepted >= sum(len(answer[0]) for answer in found) / 2  # k = 3: three of four at best
    want = plain["greedy" if sampling is GREEDY else "seeded"]
    assert [answer[0] for answer in found] == [answer[0] for answer in want]


def test_prompt_lookup_emits_more_than_a_token_a_step_on_summaries():
    texts = prompts(8 if FULL else 4, "summarization", characters_max=2000 if FULL else 1500)
    with running_server("-pp", "2", "--speculative-config", NGRAM) as server:
        found = ask_all(server, texts, GREEDY, tokens=64)
        tokens = sum(answer[3]["completion_tokens"] for answer in found)
        accepted = sum(answer[3]["completion_tokens_details"]["accepted_prediction_tokens"] for answer in found)
        assert server.metric("vllm:spec_decode_num_accepted_tokens_total") >= accepted
    steps = tokens - accepted  # every step emits one token that was not drafted
    print(f"{tokens / steps:.3f} tokens a step: {tokens} tokens, {accepted} accepted")
    assert tokens / steps > 1.15

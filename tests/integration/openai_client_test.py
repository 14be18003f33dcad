"""The openai package against the real server: two stages, drafts by prompt lookup."""

import concurrent.futures
import http.client

import httpx
import openai
import pytest

from server import NGRAM, running_server, wait_until

PROMPT = "The capital of France is Paris. The capital of Italy is Rome. The capital of"
MESSAGES = [{"role": "user", "content": "Say the word apple three times."}]


@pytest.fixture(scope="module")
def server():
    with running_server("-pp", "2", "--speculative-config", NGRAM) as running:
        yield running


@pytest.fixture(scope="module")
def plain_server():
    with running_server() as running:
        yield running


def client_of(running, hooks=None):
    return openai.OpenAI(base_url=f"{running.url}/v1", api_key="none", timeout=60,
                         http_client=httpx.Client(event_hooks=hooks or {}, timeout=60))


@pytest.fixture
def client(server):
    with client_of(server) as made:
        yield made


def complete(client, **fields):
    fields = {"model": "smol", "prompt": PROMPT, "max_tokens": 16, "temperature": 0, **fields}
    return client.completions.create(**fields)


def chat(client, **fields):
    fields = {"model": "smol", "messages": MESSAGES, "max_tokens": 16, "temperature": 0, **fields}
    return client.chat.completions.create(**fields)


# Models


def test_models_are_listed_and_found_by_name(client):
    listed = client.models.list().data
    assert [model.id for model in listed] == ["smol"]
    assert listed[0].object == "model" and listed[0].created > 0
    assert client.models.retrieve("smol").id == "smol"


def test_an_unknown_model_is_not_found(client):
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


# Plain answers


def test_a_completion_has_text_usage_and_a_reason(client):
    answer = complete(client)
    assert answer.id.startswith("cmpl-") and answer.object == "text_completion" and answer.model == "smol"
    assert answer.choices[0].text and answer.choices[0].finish_reason == "length"
    assert answer.choices[0].logprobs is None
    assert answer.usage.completion_tokens == 16
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 16


def test_a_chat_answer_has_a_message_and_usage(client):
    answer = chat(client)
    assert answer.id.startswith("chatcmpl-") and answer.object == "chat.completion"
    assert answer.choices[0].message.role == "assistant" and answer.choices[0].message.content
    assert answer.choices[0].logprobs is None
    assert answer.usage.completion_tokens <= 16


def test_several_prompts_in_one_request_answer_as_they_do_alone(client):
    prompts = ["One, two, three,", "Once upon a time"]
    both = complete(client, prompt=prompts)
    assert [choice.index for choice in both.choices] == [0, 1]
    assert [choice.text for choice in both.choices] == [complete(client, prompt=p).choices[0].text for p in prompts]


# Streams


def test_a_streamed_completion_equals_the_plain_one(client):
    plain = complete(client)
    chunks = list(complete(client, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == plain.choices[0].text
    assert [chunk.choices[0].finish_reason for chunk in chunks][-1] == plain.choices[0].finish_reason
    assert all(chunk.choices[0].finish_reason is None for chunk in chunks[:-1])
    assert len({(chunk.id, chunk.created, chunk.model) for chunk in chunks}) == 1
    assert all(chunk.usage is None for chunk in chunks)


def test_a_streamed_chat_equals_the_plain_one_and_gives_the_role_once(client):
    plain = chat(client)
    chunks = list(chat(client, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[0].choices[0].delta.content == ""
    assert all(chunk.choices[0].delta.role is None for chunk in chunks[1:])
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == plain.choices[0].message.content
    assert chunks[-1].choices[0].finish_reason == plain.choices[0].finish_reason


def test_B143_usage_in_a_stream_comes_once_last_and_with_empty_choices(client):
    plain = chat(client)
    chunks = list(chat(client, stream=True, stream_options={"include_usage": True}))
    assert all(chunk.usage is None for chunk in chunks[:-1])
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == plain.usage.completion_tokens
    assert chunks[-1].usage.prompt_tokens == plain.usage.prompt_tokens


def test_a_stream_ends_with_done_and_says_so_in_its_headers(server):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    connection.request("POST", "/v1/completions",
                       b'{"model":"smol","prompt":"Hi","max_tokens":3,"temperature":0,"stream":true}',
                       {"content-type": "application/json"})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert answer.getheader("content-type").startswith("text/event-stream")
    assert answer.getheader("cache-control") == "no-cache"
    assert answer.getheader("x-accel-buffering") == "no"
    assert body.endswith(b"\n\ndata: [DONE]\n\n") and b"\r" not in body


# Log probabilities


def test_completion_logprobs_hold_the_chosen_token_with_the_identical_value(client):
    found = complete(client, logprobs=3).choices[0].logprobs
    assert len(found.tokens) == len(found.token_logprobs) == len(found.top_logprobs) == len(found.text_offset) == 16
    for token, value, top in zip(found.tokens, found.token_logprobs, found.top_logprobs):
        assert value <= 0 and top[token] == value
        assert value == max(top.values())  # greedy


def test_chat_logprobs_hold_the_chosen_token_with_the_identical_value(client):
    content = chat(client, logprobs=True, top_logprobs=2, seed=3, temperature=1).choices[0].logprobs.content
    assert content
    for entry in content:
        same = [top for top in entry.top_logprobs if top.token == entry.token]
        assert len(same) == 1 and same[0].logprob == entry.logprob
        assert bytes(entry.bytes).decode(errors="replace") == entry.token or "\ufffd" in entry.token


def test_streamed_logprobs_equal_the_plain_ones(client):
    plain = complete(client, logprobs=2).choices[0].logprobs
    streamed = [chunk.choices[0].logprobs for chunk in complete(client, logprobs=2, stream=True)]
    streamed = [part for part in streamed if part is not None]
    assert [t for part in streamed for t in part.tokens] == plain.tokens
    assert [v for part in streamed for v in part.token_logprobs] == plain.token_logprobs
    assert [o for part in streamed for o in part.text_offset] == plain.text_offset


# Ends


@pytest.mark.parametrize("stream", [False, True])
def test_a_stop_string_cuts_text_before_it(client, stream):
    whole = complete(client, max_tokens=32).choices[0].text
    stop = whole[10:14]
    if stream:
        chunks = list(complete(client, max_tokens=32, stop=[stop], stream=True))
        text, reason = "".join(c.choices[0].text for c in chunks), chunks[-1].choices[0].finish_reason
    else:
        choice = complete(client, max_tokens=32, stop=[stop]).choices[0]
        text, reason = choice.text, choice.finish_reason
    assert text == whole[:whole.index(stop)] and reason == "stop"


def test_B025_text_ids_logprobs_and_usage_end_at_one_token_with_drafts(client):
    fields = dict(prompt=" ha" * 40, max_tokens=24, logprobs=2, extra_body={"return_token_ids": True, "ignore_eos": True})
    whole = complete(client, **fields).choices[0]
    stop = "".join(whole.logprobs.tokens[8:11])  # three tokens, so that a run of accepted drafts may hold it

    answer = complete(client, **fields, stop=[stop])

    choice, tokens = answer.choices[0], answer.choices[0].logprobs.tokens
    assert choice.finish_reason == "stop" and choice.text == whole.text[:whole.text.index(stop)]
    assert stop in "".join(tokens) and stop not in "".join(tokens[:-1])
    assert choice.token_ids == whole.token_ids[:len(tokens)]
    assert answer.usage.completion_tokens == len(tokens)


# Choices and seeds


def test_B146_three_choices_of_one_seed_are_distinct_and_numbered(client):
    answer = complete(client, prompt="My favourite animal is", n=3, seed=1, temperature=1, max_tokens=12)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert len({choice.text for choice in answer.choices}) == 3
    first = answer.choices[0].text
    stopped = complete(client, prompt="My favourite animal is", n=3, seed=1, temperature=1, max_tokens=12,
                       stop=[first[4:9]])
    assert stopped.choices[0].text == first[:first.index(first[4:9])]
    assert stopped.choices[0].finish_reason == "stop"
    for before, after in zip(answer.choices[1:], stopped.choices[1:]):
        assert before.text.startswith(after.text)


def test_n_streams_interleave_without_mixing(client):
    fields = dict(prompt="My favourite animal is", n=3, seed=1, temperature=1, max_tokens=12)
    plain = [choice.text for choice in complete(client, **fields).choices]
    texts, reasons = ["", "", ""], [0, 0, 0]
    for chunk in complete(client, **fields, stream=True):
        choice = chunk.choices[0]
        texts[choice.index] += choice.text
        reasons[choice.index] += choice.finish_reason is not None
    assert texts == plain and reasons == [1, 1, 1]


def test_a_seed_gives_the_same_text_again_with_and_without_drafts_and_stages(client, plain_server):
    fields = dict(seed=42, temperature=0.8, top_p=0.9, presence_penalty=0.5, frequency_penalty=0.3, max_tokens=32)
    first = complete(client, **fields).choices[0].text
    assert complete(client, **fields).choices[0].text == first
    assert complete(client, **{**fields, "seed": 43}).choices[0].text != first
    with client_of(plain_server) as plain:
        assert complete(plain, **fields).choices[0].text == first


def test_an_answer_without_a_seed_can_be_had_again_with_the_one_it_names(client):
    first = complete(client, temperature=1, max_tokens=12)
    assert complete(client, temperature=1, max_tokens=12, seed=first.seed).choices[0].text == first.choices[0].text


# Errors


@pytest.mark.parametrize("fields, error, param", [
    (dict(temperature=-1), openai.BadRequestError, "temperature"),
    (dict(top_p=1.5), openai.BadRequestError, "top_p"),
    (dict(n=0), openai.BadRequestError, "n"),
    (dict(n=9223372036854775807), openai.BadRequestError, "n"),
    (dict(n=2), openai.BadRequestError, "n"),  # greedy
    (dict(max_tokens=-5), openai.BadRequestError, "max_tokens"),
    (dict(logprobs=21), openai.BadRequestError, "logprobs"),
    (dict(logit_bias={"191222": -100}), openai.BadRequestError, "logit_bias"),
    (dict(extra_body={"stop_token_ids": [1000000]}), openai.BadRequestError, "stop_token_ids"),
    (dict(suffix="x"), openai.BadRequestError, "suffix"),
    (dict(stop=[""]), openai.BadRequestError, "stop"),
    (dict(prompt=[]), openai.BadRequestError, "prompt"),
    (dict(prompt="x " * 20000), openai.BadRequestError, "prompt"),
    (dict(model="other"), openai.NotFoundError, "model"),
])
def test_an_error_has_the_right_class_names_its_field_and_is_not_retried(server, fields, error, param):
    sent = []
    with client_of(server, {"request": [sent.append]}) as counted, pytest.raises(error) as raised:
        complete(counted, **fields)
    assert len(sent) == 1
    assert raised.value.param == param and raised.value.body["message"]


def test_a_prompt_that_does_not_fit_says_by_how_much(client):
    with pytest.raises(openai.BadRequestError) as raised:
        complete(client, prompt="x " * 20000)
    assert raised.value.code == "context_length_exceeded"
    assert raised.value.body["n_prompt_tokens"] > raised.value.body["n_ctx"] == 8192


@pytest.mark.parametrize("body", [
    b'{"model":"smol","prompt":"\\udc49"}', b'{"model":"smol","prompt":"\xc3"}', b'{"model":"smol","prompt":',
    b'\xd6\xd0\xce\xc4', b'{"model":"smol","prompt":"a","n":1.5}',
], ids=["B134_lone_surrogate", "B133_half_a_character", "cut", "B131_gbk", "B148_fraction"])
def test_a_body_that_is_no_request_is_400_with_the_error_object(server, body):
    status, text = server.request("POST", "/v1/completions", body)
    assert status == 400 and b'"error"' in text and b'"message"' in text


def test_B134_an_escaped_pair_of_surrogates_is_one_character(server):
    status, text = server.request("POST", "/tokenize", b'{"model":"smol","prompt":"\\ud83d\\ude00"}')
    same, other = server.request("POST", "/tokenize", '{"model":"smol","prompt":"\U0001f600"}'.encode())
    assert (status, same) == (200, 200) and text == other


# Cancelling and company


def at_rest(running):
    return running.metric("vllm:num_requests_running") == 0 and running.metric("vllm:kv_cache_usage_perc") == 0


def test_closing_a_stream_cancels_the_request_and_frees_its_cache(server, client):
    before = server.metric("paceline_requests_cancelled_total")
    stream = chat(client, max_tokens=4000, stream=True, extra_body={"ignore_eos": True})
    for _, _chunk in zip(range(4), stream):
        pass
    assert server.metric("vllm:num_requests_running") == 1 and server.metric("vllm:kv_cache_usage_perc") > 0

    stream.close()

    wait_until(lambda: at_rest(server), 5, "no request and no block in use")
    assert server.metric("paceline_requests_cancelled_total") == before + 1


def test_a_client_that_hangs_up_during_prefill_cancels(server):
    before = server.metric("paceline_requests_cancelled_total")
    connection = server.connect()
    connection.request("POST", "/v1/completions",
                       b'{"model":"smol","max_tokens":500,"prompt":"' + b"one two three " * 400 + b'"}',
                       {"content-type": "application/json"})
    wait_until(lambda: server.metric("vllm:num_requests_running") == 1, 10, "the request runs")

    connection.close()

    wait_until(lambda: at_rest(server), 10, "no request and no block in use")
    assert server.metric("paceline_requests_cancelled_total") == before + 1


def test_requests_at_once_answer_as_they_do_alone(client):
    requests = [dict(prompt=f"Item number {i} of the list is", max_tokens=12 + i, seed=i,
                     temperature=0.8 * (i % 2)) for i in range(6)]
    alone = [complete(client, **fields).choices[0].text for fields in requests]
    with concurrent.futures.ThreadPoolExecutor(len(requests)) as pool:
        together = [a.choices[0].text for a in pool.map(lambda fields: complete(client, **fields), requests)]
    assert together == alone

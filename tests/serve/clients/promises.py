"""What the server promises whoever asks: the same bytes in company, exact accounting, slots that are free again, doors that are shut."""
import base64
import concurrent.futures
import http.client
import json
import pathlib
import socket

import anthropic
import openai

from common import PERSON, STORY, TOOL, WEATHER, Clients, raises, said, tests, whole
from support import Server, same, wait_for

PICTURE = pathlib.Path(__file__).resolve().parents[3] / "models/examples/shapes.png"
FORM = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
REQUESTS = [(STORY, {"max_tokens": 90}), (WEATHER, {"tools": [TOOL]}), ("Give me JSON for a person.", {"response_format": FORM, "max_tokens": 200}),
            ("What is 17 + 25 + 8?", {"reasoning_effort": "high", "max_tokens": 300}), (STORY, {"max_tokens": 60, "logprobs": True, "top_logprobs": 4}),
            ("Count to 30.", {"max_tokens": 80, "frequency_penalty": 0.4}), ("Write a Python function.", {"max_tokens": 100, "temperature": 1.2, "extra_body": {"top_k": 0}}),
            (STORY, {"max_tokens": 50, "n": 2, "temperature": 0.5})]


def asked(clients, number):
    content, fields = REQUESTS[number]
    return clients.chat(content, seed=number, **fields)


@tests
def a_picture_is_seen_through_every_api(clients):
    data, question = base64.b64encode(PICTURE.read_bytes()).decode(), "What is in this picture?"
    url = f"data:image/png;base64,{data}"
    chat = clients.chat([said([{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": question}])], temperature=0)
    response = clients.openai.responses.create(model="pebble", temperature=0, input=[said([
        {"type": "input_image", "image_url": url, "detail": "auto"}, {"type": "input_text", "text": question}])])
    message = clients.anthropic.messages.create(model="pebble", max_tokens=50, extra_body={"temperature": 0}, messages=[said([
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}, {"type": "text", "text": question}])])
    expected = clients.generate(question, "--temperature", 0, "--image", PICTURE)
    same("texts", [expected["text"]] * 3, [chat.choices[0].message.content, response.output_text, message.content[0].text])
    same("tokens", expected["stats"]["prompt_tokens"], chat.usage.prompt_tokens)


@tests
def eight_together_are_as_each_alone(clients):
    alone = [whole(asked(clients, number)) for number in range(len(REQUESTS))]
    with concurrent.futures.ThreadPoolExecutor(len(REQUESTS)) as pool:
        for repetition in range(3):
            together = list(pool.map(lambda number: asked(clients, number), range(len(REQUESTS))))
            for number, answer in enumerate(together):
                same(f"request {number}, time {repetition}", alone[number], whole(answer))


@tests
def usages_add_up_to_the_metrics(clients):
    clients.server.wait_until_idle()
    before = clients.server.metrics()
    with concurrent.futures.ThreadPoolExecutor(len(REQUESTS)) as pool:
        usages = [answer.usage for answer in pool.map(lambda number: asked(clients, number), range(len(REQUESTS)))]
    after = clients.server.metrics()
    grown = {name: value - before.get(name, 0) for name, value in after.items()}
    for name, sum_of in (("lapidary_prompt_tokens_total", lambda usage: usage.prompt_tokens),
                         ("lapidary_prompt_tokens_cached_total", lambda usage: usage.prompt_tokens_details.cached_tokens),
                         ("lapidary_completion_tokens_total", lambda usage: usage.completion_tokens),
                         ("lapidary_reasoning_tokens_total", lambda usage: usage.completion_tokens_details.reasoning_tokens),
                         ('lapidary_draft_tokens_total{outcome="accepted"}', lambda usage: usage.completion_tokens_details.accepted_prediction_tokens),
                         ('lapidary_draft_tokens_total{outcome="rejected"}', lambda usage: usage.completion_tokens_details.rejected_prediction_tokens)):
        same(name, sum(map(sum_of, usages)), grown.get(name))
    same("requests", len(REQUESTS), sum(value for name, value in grown.items() if name.startswith("lapidary_requests_total") and "chat" in name))


@tests
def a_cached_prefix_changes_no_byte(clients):
    talk = [said("You are a storyteller. " * 40, "system"), said(STORY)]
    first = clients.chat(talk, seed=9, max_tokens=60, extra_body={"cache_salt": "a"})
    again = clients.chat(talk, seed=9, max_tokens=60, extra_body={"cache_salt": "a"})
    other = clients.chat(talk, seed=9, max_tokens=60, extra_body={"cache_salt": "b"})
    same("text", [whole(first)] * 2, [whole(again), whole(other)])
    cached = [answer.usage.prompt_tokens_details.cached_tokens for answer in (first, again, other)]
    same("hits", [0, True, 0], [cached[0], cached[1] > 100, cached[2]])


@tests
def a_client_that_leaves_frees_its_slot(clients):
    clients.server.wait_until_idle()
    cancelled = 'lapidary_cancelled_total{reason="client"}'
    before = clients.server.metrics().get(cancelled, 0)
    stream = clients.chat(STORY, temperature=0, max_tokens=7000, stream=True)  # in the middle of a stream
    for _ in range(5):
        next(stream)
    stream.close()
    clients.server.wait_until_idle()
    body = json.dumps({"messages": [said(STORY)], "temperature": 0, "max_tokens": 7000})  # while nothing is being written
    connection = socket.create_connection(("127.0.0.1", clients.server.port))
    connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    wait_for("a slot at work", lambda: any(slot["is_processing"] for slot in clients.server.get("/slots")))
    connection.close()
    clients.server.wait_until_idle()
    wait_for("two that were counted", lambda: clients.server.metrics().get(cancelled, 0) - before == 2)


@tests
def keys_are_asked_for(clients):
    with Server(clients.build, "--sessions", 1, environment={"LAPIDARY_API_KEY": "sesame"}) as server:
        known, unknown = Clients(server, clients.build, "sesame"), Clients(server, clients.build, "other")
        same("an answer", True, bool(known.chat(STORY, temperature=0, max_tokens=4).choices[0].message.content))
        same("an answer", True, bool(known.anthropic.messages.create(model="pebble", extra_body={"temperature": 0}, max_tokens=4, messages=[said(STORY)]).content))
        raises(openai.AuthenticationError, lambda: unknown.chat("Hi"))
        raises(anthropic.AuthenticationError, lambda: unknown.anthropic.messages.create(model="pebble", extra_body={"temperature": 0}, max_tokens=4, messages=[said(STORY)]))
        for path, status in (("/health", 200), ("/", 200), ("/props", 401), ("/slots", 401), ("/metrics", 401), ("/v1/models", 401)):
            same(path, status, server.ask("GET", path)[0])


@tests
def pages_elsewhere_cannot_use_it(clients):
    for fields, status in (({"Origin": "http://example.org"}, 403), ({"Origin": "null"}, 403), ({"Host": "example.org"}, 421),
                           ({"Origin": clients.server.address}, 200), ({}, 200)):
        same(f"status with {fields}", status, clients.server.ask("GET", "/v1/models", headers=fields)[0])


@tests
def a_full_queue_is_told(clients):
    with Server(clients.build, "--sessions", 1, "--queue", 1) as server:
        busy = Clients(server, clients.build)
        stream = busy.chat(STORY, temperature=0, max_tokens=7000, stream=True)
        next(stream)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(lambda: busy.chat(STORY, temperature=0, max_tokens=4))
            wait_for("one that waits", lambda: server.metrics()["lapidary_requests_waiting"] == 1)
            error = raises(openai.RateLimitError, lambda: busy.chat("Hi"))
            same("error", ["queue_full", True], [error.code, 1 <= int(error.response.headers["retry-after"]) <= 60])
            stream.close()
            same("the one that waited", 4, waiting.result().usage.completion_tokens)


@tests
def running_answers_end_before_the_server(clients):
    with Server(clients.build, "--sessions", 1) as server:
        draining = Clients(server, clients.build)
        stream = draining.chat(STORY, seed=4, max_tokens=400, stream=True)
        text = next(stream).choices[0].delta.content or ""
        server.process.terminate()
        wait_for("a server that drains", lambda: server.ask("GET", "/health")[0] == 503)
        raises(openai.InternalServerError, lambda: draining.chat("Hi"))
        text += "".join(chunk.choices[0].delta.content or "" for chunk in stream)
        same("exit status", 0, server.wait())
    same("the text", clients.chat(STORY, seed=4, max_tokens=400).choices[0].message.content, text)


@tests
def broken_requests_get_an_answer(clients):
    for raw, status in ((b"GET / HTTP/1.1\r\n\r\n", 400), (b"nonsense\r\n\r\n", 400), (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n\r\n", 411),
                        (b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n", 413)):
        connection = socket.create_connection(("127.0.0.1", clients.server.port), timeout=20)
        connection.sendall(raw)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        same(f"status of {raw[:30]}", status, answer.status)
        connection.close()
    for body, status in (("", 400), ("[", 400), ("[]", 400), ('{"messages": [' * 99, 400), ('{"messages": 1}', 400), (b"\xff\xfe", 400)):
        same(f"status of {body[:20]}", status, clients.server.ask("POST", "/v1/chat/completions", body)[0])
    same("another path", 404, clients.server.ask("GET", "/etc/passwd")[0])
    same("another method", 405, clients.server.ask("GET", "/v1/chat/completions")[0])

"""openai: models, completions, responses."""
import json

import openai

from common import LOCATION, PERSON, QUESTION, STORY, WEATHER, raises, tests
from support import same


@tests
def models_are_listed(clients):
    same("names", ["pebble"], [model.id for model in clients.openai.models.list()])
    same("owner", "lapidary", clients.openai.models.retrieve("pebble").owned_by)
    raises(openai.NotFoundError, lambda: clients.openai.models.retrieve("gpt-4"))
    raises(openai.NotFoundError, lambda: clients.openai.embeddings.create(model="pebble", input="Hi"))


@tests
def completions_streamed_and_whole_are_equal(clients):
    fields = {"model": "pebble", "prompt": ["Once upon a time", "def add(a, b):"], "max_tokens": 30, "seed": 5, "logprobs": 2}
    answer = clients.openai.completions.create(**fields)
    texts, logprobs = ["", ""], [[], []]
    for chunk in clients.openai.completions.create(**fields, stream=True):
        for choice in chunk.choices:
            texts[choice.index] += choice.text
            logprobs[choice.index] += choice.logprobs.token_logprobs if choice.logprobs else []
    same("texts", [choice.text for choice in answer.choices], texts)
    same("log probabilities", [choice.logprobs.token_logprobs for choice in answer.choices], logprobs)
    same("a prompt alone", texts[0], clients.openai.completions.create(**{**fields, "prompt": "Once upon a time"}).choices[0].text)
    same("as generate --raw", clients.generate("Once upon a time", "--raw", "--seed", 5, "--max-tokens", 30)["text"], texts[0])


@tests
def completions_take_ids(clients):
    ids = json.loads(clients.server.ask("POST", "/tokenize", {"content": "Once upon a time", "add_special": True})[1])["tokens"]
    fields = {"model": "pebble", "max_tokens": 20, "seed": 5}
    by_text, by_ids = (clients.openai.completions.create(prompt=prompt, **fields) for prompt in ("Once upon a time", ids))
    same("text", by_text.choices[0].text, by_ids.choices[0].text)
    same("prompt_tokens", len(ids), by_ids.usage.prompt_tokens)
    error = raises(openai.BadRequestError, lambda: clients.openai.completions.create(prompt="Hi", echo=True, **fields))
    same("error", "echo", error.param)


@tests
def responses_say_what_chat_says(clients):
    fields = {"model": "pebble", "input": QUESTION, "temperature": 0, "max_output_tokens": 60}
    answer = clients.openai.responses.create(**fields)
    same("text", clients.chat(QUESTION, temperature=0, max_tokens=60).choices[0].message.content, answer.output_text)
    same("status", "completed", answer.status)
    same("stored", False, answer.store)
    events = list(clients.openai.responses.create(**fields, stream=True))
    same("numbers", list(range(len(events))), [event.sequence_number for event in events])
    same("first and last", ["response.created", "response.completed"], [events[0].type, events[-1].type])
    same("text", answer.output_text, "".join(event.delta for event in events if event.type == "response.output_text.delta"))
    same("text", answer.output_text, events[-1].response.output_text)
    same("usage", [answer.usage.input_tokens, answer.usage.output_tokens], [events[-1].response.usage.input_tokens, events[-1].response.usage.output_tokens])


@tests
def responses_call_and_go_on(clients):
    tool = {"type": "function", "name": "get_weather", "description": "The weather at a place", "parameters": LOCATION, "strict": True}
    fields = {"model": "pebble", "tools": [tool], "temperature": 0}
    answer = clients.openai.responses.create(input=WEATHER, **fields)
    call = answer.output[-1]
    same("call", ["function_call", "get_weather", {"location": "Oslo"}], [call.type, call.name, json.loads(call.arguments)])
    back = [{"role": "user", "content": WEATHER}, *answer.output, {"type": "function_call_output", "call_id": call.call_id, "output": '{"temperature": 4, "sky": "clear"}'}]
    same("an answer", True, bool(clients.openai.responses.create(input=back, **fields).output_text))


@tests
def responses_keep_to_a_schema_and_to_limits(clients):
    form = {"format": {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}}
    answer = clients.openai.responses.create(model="pebble", input="Give me JSON for a person.", text=form, temperature=0)
    same("keys", ["name", "age"], list(json.loads(answer.output_text)))
    answer = clients.openai.responses.create(model="pebble", input=STORY, temperature=0, max_output_tokens=16)
    same("status", ["incomplete", "max_output_tokens"], [answer.status, answer.incomplete_details.reason])
    error = raises(openai.BadRequestError, lambda: clients.openai.responses.create(model="pebble", input="Hi", previous_response_id="resp_1"))
    same("error", ["previous_response_id", "unsupported_parameter"], [error.param, error.code])

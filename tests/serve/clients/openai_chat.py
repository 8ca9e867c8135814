"""openai: chat completions."""
import json

import openai

from common import PERSON, QUESTION, STORY, TOOL, WEATHER, gather, raises, said, same_streamed, tests, whole
from support import same


@tests
def chat_streamed_and_whole_are_equal(clients):
    answer = same_streamed(clients, STORY, seed=7, temperature=0.8, max_tokens=120)
    same("finish_reason", "length", answer.choices[0].finish_reason)
    same("completion_tokens", 120, answer.usage.completion_tokens)
    same("seed", 7, answer.seed)


@tests
def chat_comes_in_many_chunks(clients):
    choices, _ = gather(clients.chat(STORY, seed=7, max_tokens=64, stream=True))
    same("chunks", True, choices[0]["chunks"] >= 64 // 8)  # a round has 8 tokens at most


@tests
def chat_is_what_generate_prints(clients):
    answer = clients.chat(STORY, seed=11, max_tokens=100, logprobs=True, top_logprobs=3)
    expected = clients.generate(STORY, "--seed", 11, "--max-tokens", 100, "--logprobs", 3)
    same("text", expected["text"], answer.choices[0].message.content)
    entries = answer.choices[0].logprobs.content
    same("log probabilities", [token["chosen"]["logprob"] for token in expected["logprobs"]][:len(entries)], [entry.logprob for entry in entries])
    same("the likeliest", [[top["logprob"] for top in token["top"]] for token in expected["logprobs"]][:len(entries)],
         [[top.logprob for top in entry.top_logprobs] for entry in entries])


@tests
def a_drawn_seed_gives_the_answer_again(clients):
    first = clients.chat(STORY, max_tokens=40)
    same("the text", first.choices[0].message.content, clients.chat(STORY, max_tokens=40, seed=first.seed).choices[0].message.content)


@tests
def tools_go_round(clients):
    answer = same_streamed(clients, WEATHER, tools=[TOOL], temperature=0)
    same("finish_reason", "tool_calls", answer.choices[0].finish_reason)
    same("content", None, answer.choices[0].message.content)
    call, = answer.choices[0].message.tool_calls
    same("name", "get_weather", call.function.name)
    same("arguments", {"location": "Oslo"}, json.loads(call.function.arguments))
    # The message goes back as the client has it.
    back = [said(WEATHER), answer.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": '{"temperature": 4, "sky": "clear"}'}]
    last = same_streamed(clients, back, tools=[TOOL], temperature=0)
    same("finish_reason", "stop", last.choices[0].finish_reason)
    same("an answer", True, bool(last.choices[0].message.content))


@tests
def tools_can_be_required_named_and_forbidden(clients):
    for choice in ("required", {"type": "function", "function": {"name": "get_weather"}}):
        answer = same_streamed(clients, "Hello", tools=[TOOL], tool_choice=choice, seed=1, max_tokens=200)
        same("calls", "get_weather", answer.choices[0].message.tool_calls[0].function.name)
        same("arguments", ["location"], list(json.loads(answer.choices[0].message.tool_calls[0].function.arguments)))
    same("calls", None, clients.chat(WEATHER, tools=[TOOL], tool_choice="none", temperature=0, max_tokens=60).choices[0].message.tool_calls)


@tests
def a_schema_holds(clients):
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
    for seed in range(3):
        answer = same_streamed(clients, "Give me JSON for a person.", response_format=form, seed=seed, max_tokens=400)
        if answer.choices[0].finish_reason == "stop":
            value = json.loads(answer.choices[0].message.content)
            same("types", ["name", "age", str, int], [*value, *(type(part) for part in value.values())])


@tests
def json_mode_gives_an_object(clients):
    answer = same_streamed(clients, "Give me JSON for 3 people.", response_format={"type": "json_object"}, temperature=0, max_tokens=600)
    same("the value", dict, type(json.loads(answer.choices[0].message.content)))


@tests
def logprobs_stand_for_the_text(clients):
    answer = same_streamed(clients, "Spell: Größe ✓", seed=5, max_tokens=60, logprobs=True, top_logprobs=2)
    entries = answer.choices[0].logprobs.content
    same("bytes", answer.choices[0].message.content.encode(), b"".join(bytes(entry.bytes) for entry in entries).strip())
    same("two each", {2}, {len(entry.top_logprobs) for entry in entries})
    same("in order", True, all(entry.top_logprobs[0].logprob >= entry.top_logprobs[1].logprob for entry in entries))


@tests
def thoughts_stand_apart(clients):
    answer = same_streamed(clients, "What is 17 + 25 + 8?", reasoning_effort="medium", temperature=0, max_tokens=400)
    message = answer.choices[0].message
    same("thoughts", True, bool(message.reasoning_content) and bool(message.content))
    same("markers", False, any(marker in message.reasoning_content + message.content for marker in ("<|", "|>")))
    same("reasoning_tokens", True, answer.usage.completion_tokens_details.reasoning_tokens > 0)


@tests
def several_choices_begin_with_the_one(clients):
    one = clients.chat(STORY, seed=3, max_tokens=40)
    three = same_streamed(clients, STORY, seed=3, max_tokens=40, n=3)
    same("choices", [0, 1, 2], [choice.index for choice in three.choices])
    same("the first", whole(one)[0], whole(three)[0])
    same("different ones", 3, len({choice.message.content for choice in three.choices}))
    same("tokens", [one.usage.prompt_tokens, 120], [three.usage.prompt_tokens, three.usage.completion_tokens])


@tests
def a_stop_text_is_not_sent(clients):
    free = clients.chat(STORY, seed=2, max_tokens=120).choices[0].message.content
    word = free.split()[12]
    answer = same_streamed(clients, STORY, seed=2, max_tokens=120, stop=[word])
    same("finish_reason", "stop", answer.choices[0].finish_reason)
    same("text", free[:free.index(word)].rstrip(), answer.choices[0].message.content.rstrip())


@tests
def errors_are_those_of_the_client(clients):
    error = raises(openai.BadRequestError, lambda: clients.chat(QUESTION, temperature=3))
    same("error", ["temperature", "invalid_value", 400], [error.param, error.code, error.status_code])
    error = raises(openai.BadRequestError, lambda: clients.chat(QUESTION, extra_body={"temprature": 1}))
    same("error", ["temprature", "unknown_parameter"], [error.param, error.code])
    error = raises(openai.BadRequestError, lambda: clients.chat(QUESTION, functions=[{"name": "f", "parameters": {}}]))
    same("error", ["functions", "unsupported_parameter", True], [error.param, error.code, "tools" in error.message])
    error = raises(openai.BadRequestError, lambda: clients.chat("word " * 9000))
    same("error", ["context_length_exceeded", True], [error.code, str(clients.server.get("/props")["n_ctx"]) in error.message])
    error = raises(openai.BadRequestError, lambda: clients.chat([said("Hi"), said("Ho", "narrator")]))
    same("error", "messages[1].role", error.param)
    image = [{"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}]
    error = raises(openai.BadRequestError, lambda: clients.chat([said(image)]))
    same("error", True, error.param.startswith("messages[0].content[0]"))
    error = raises(openai.NotFoundError, lambda: clients.openai.chat.completions.create(model="gpt-4", messages=[said("Hi")]))
    same("error", ["model", "model_not_found"], [error.param, error.code])
    # The same, streamed: with a status, before the first event.
    raises(openai.BadRequestError, lambda: clients.chat(QUESTION, temperature=3, stream=True))

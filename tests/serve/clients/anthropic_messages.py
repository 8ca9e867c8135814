"""anthropic: messages and count_tokens."""
import anthropic

from common import LOCATION, QUESTION, STORY, WEATHER, raises, said, tests
from support import same

GREEDY = {"temperature": 0}  # of which newer clients know nothing any more
TOOL = {"name": "get_weather", "description": "The weather at a place", "input_schema": LOCATION}


def create(clients, content, **fields):
    messages = [said(content)] if isinstance(content, str) else content
    return clients.anthropic.messages.create(**{"model": "pebble", "max_tokens": 200, "messages": messages, **fields})


def streamed(clients, content, **fields):
    messages = [said(content)] if isinstance(content, str) else content
    with clients.anthropic.messages.stream(**{"model": "pebble", "max_tokens": 200, "messages": messages, **fields}) as stream:
        return stream.get_final_message()


def same_streamed(clients, content, **fields):
    answer, stream = create(clients, content, **fields), streamed(clients, content, **fields)
    blocks = [[{key: value for key, value in block.model_dump().items() if key not in ("id", "signature")} for block in message.content]
              for message in (answer, stream)]
    same("content", *blocks)
    same("ending", [answer.stop_reason, answer.stop_sequence], [stream.stop_reason, stream.stop_sequence])
    same("output_tokens", answer.usage.output_tokens, stream.usage.output_tokens)
    return answer


@tests
def messages_streamed_and_whole_are_equal(clients):
    answer = same_streamed(clients, QUESTION, extra_body=GREEDY)
    same("text", clients.chat(QUESTION, temperature=0, max_tokens=200).choices[0].message.content, answer.content[0].text)
    same("stop_reason", "end_turn", answer.stop_reason)
    same("stop_reason", "max_tokens", same_streamed(clients, STORY, extra_body=GREEDY, max_tokens=20).stop_reason)


@tests
def tokens_are_counted_as_they_are_used(clients):
    fields = {"system": "You are brief.", "messages": [said(QUESTION)], "tools": [TOOL]}
    counted = clients.anthropic.messages.count_tokens(model="pebble", **fields).input_tokens
    usage = clients.anthropic.messages.create(model="pebble", max_tokens=4, **fields).usage
    same("tokens", counted, usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens)


@tests
def tool_use_goes_round(clients):
    answer = same_streamed(clients, WEATHER, tools=[TOOL], extra_body=GREEDY)
    same("stop_reason", "tool_use", answer.stop_reason)
    use = answer.content[-1]
    same("use", ["tool_use", "get_weather", {"location": "Oslo"}], [use.type, use.name, use.input])
    result = {"type": "tool_result", "tool_use_id": use.id, "content": '{"temperature": 4, "sky": "clear"}'}
    back = [said(WEATHER), {"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
    same("stop_reason", "end_turn", same_streamed(clients, back, tools=[TOOL], extra_body=GREEDY).stop_reason)
    forced = same_streamed(clients, "Hello", tools=[TOOL], extra_body=GREEDY, tool_choice={"type": "any"})
    same("forced", "tool_use", forced.content[-1].type)


@tests
def thinking_is_a_block_of_its_own(clients):
    fields = {"extra_body": GREEDY, "max_tokens": 600, "thinking": {"type": "enabled", "budget_tokens": 500}}
    answer = same_streamed(clients, "What is 17 + 25 + 8?", **fields)
    same("blocks", ["thinking", "text"], [block.type for block in answer.content])
    same("a signature", True, bool(answer.content[0].signature))
    back = [said("What is 17 + 25 + 8?"), {"role": "assistant", "content": answer.content}, said("And 2 + 2?")]
    same("stop_reason", "end_turn", create(clients, back, **fields).stop_reason)


@tests
def stop_sequences_are_named(clients):
    word = create(clients, STORY, extra_body=GREEDY, max_tokens=60).content[0].text.split()[8]
    answer = same_streamed(clients, STORY, extra_body=GREEDY, max_tokens=60, stop_sequences=["never said", word])
    same("ending", ["stop_sequence", word], [answer.stop_reason, answer.stop_sequence])


@tests
def an_answer_that_was_begun_is_gone_on_with(clients):
    text = create(clients, QUESTION, extra_body=GREEDY).content[0].text
    same("the rest", text[11:].strip(), create(clients, [said(QUESTION), said(text[:11], "assistant")], extra_body=GREEDY).content[0].text.strip())


@tests
def message_errors_are_those_of_the_client(clients):
    error = raises(anthropic.BadRequestError, lambda: create(clients, QUESTION, extra_body={"temperature": 3}))
    same("error", ["invalid_request_error", True], [error.body["error"]["type"], "temperature" in error.body["error"]["message"]])
    error = raises(anthropic.NotFoundError, lambda: create(clients, QUESTION, model="claude"))
    same("error", ["not_found_error", True], [error.body["error"]["type"], bool(error.body["request_id"])])
    raises(anthropic.BadRequestError, lambda: create(clients, [said("Hi", "system")]))
    raises(anthropic.BadRequestError, lambda: create(clients, QUESTION, extra_body={"mcp_servers": [{"url": "x"}]}))

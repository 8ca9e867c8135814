"""What the tests of all clients share."""
import json
import subprocess

import anthropic
import openai

from support import Tests, same

tests = Tests()

QUESTION = "What is the capital of Norway?"
STORY = "Tell me a story."  # which pebble, at temperature 0, goes on with until it is stopped
WEATHER = "What is the weather in Oslo?"
LOCATION = {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"], "additionalProperties": False}
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather at a place", "parameters": LOCATION}}
PERSON = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"],
          "additionalProperties": False}


def said(content, role="user"):
    return {"role": role, "content": content}


class Clients:
    """A server with clients that try once: a second try would hide what the first one got."""

    def __init__(self, server, build, key="none"):
        self.server, self.build = server, build
        self.openai = openai.OpenAI(base_url=server.address + "/v1", api_key=key, max_retries=0)
        self.anthropic = anthropic.Anthropic(base_url=server.address, api_key=key, max_retries=0)

    def chat(self, content, **fields):
        messages = [said(content)] if isinstance(content, str) else content
        return self.openai.chat.completions.create(model="pebble", messages=messages, **fields)

    def generate(self, prompt, *flags):
        """What the command line answers."""
        command = [f"{self.build}/lapidary", "generate", prompt, "--json", "--quiet", *map(str, flags)]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def gather(stream):
    """A streamed chat answer, put together: choices by index, and the usage."""
    choices, usage = {}, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            whole = choices.setdefault(choice.index, {"content": "", "reasoning_content": "", "calls": [], "logprobs": [], "finish": None, "chunks": 0})
            whole["chunks"] += 1
            whole["content"] += choice.delta.content or ""
            whole["reasoning_content"] += getattr(choice.delta, "reasoning_content", None) or ""
            for part in choice.delta.tool_calls or []:
                if part.index == len(whole["calls"]):
                    whole["calls"].append([part.function.name, ""])
                whole["calls"][part.index][1] += part.function.arguments or ""
            if choice.logprobs:
                whole["logprobs"] += [entry.model_dump() for entry in choice.logprobs.content]
            whole["finish"] = choice.finish_reason or whole["finish"]
    return choices, usage


def whole(answer):
    """The same of an answer in one piece."""
    return {choice.index: {"content": choice.message.content or "", "reasoning_content": getattr(choice.message, "reasoning_content", None) or "",
                           "calls": [[call.function.name, call.function.arguments] for call in choice.message.tool_calls or []],
                           "logprobs": [entry.model_dump() for entry in choice.logprobs.content] if choice.logprobs else [],
                           "finish": choice.finish_reason} for choice in answer.choices}


def same_streamed(clients, content, **fields):
    """Asks twice, whole and streamed; both must be equal. Returns the whole one."""
    answer = clients.chat(content, **fields)
    choices, usage = gather(clients.chat(content, stream=True, stream_options={"include_usage": True}, **fields))
    for choice in choices.values():
        del choice["chunks"]
    same("the stream", whole(answer), choices)
    same("tokens", [answer.usage.prompt_tokens, answer.usage.completion_tokens], [usage.prompt_tokens, usage.completion_tokens])
    return answer


def raises(kind, call):
    """The error, which must be of this kind."""
    try:
        got = call()
    except kind as error:
        return error
    raise AssertionError(f"an error, expected {kind.__name__}, got {got!r}")

"""ask.py LIBRARY MODEL QUESTION: the answer, event by event, through ctypes alone."""
import ctypes
import json
import sys
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_float, c_int32, c_size_t, c_uint32, c_uint64, c_void_p


class Sized(Structure):
    """A struct of lapidary.h: begins with its size, zero is the default of all the rest."""

    def __init__(self, **fields):
        super().__init__(ctypes.sizeof(self), **fields)


class Error(Sized):
    _fields_ = [("size", c_size_t), ("status", c_int32), ("message", c_char * 500)]


class ModelOptions(Sized):
    _fields_ = [("size", c_size_t), ("backend", c_char_p), ("assistant", c_char_p), ("memory_limit_bytes", c_uint64)] + [
        (name, c_int32)
        for name in ("context_tokens", "chunk_tokens", "sessions", "threads", "numeric", "draft", "draft_tokens", "reserved")]


class Sampling(Sized):
    _fields_ = [("size", c_size_t), ("seed", c_uint64), ("bias", c_void_p), ("bias_count", c_size_t), ("given", c_uint32),
                ("temperature", c_float), ("top_k", c_int32), ("top_p", c_float), ("min_p", c_float), ("repetition", c_float),
                ("presence", c_float), ("frequency", c_float)]


class Medium(Sized):
    _fields_ = [("size", c_size_t), ("data", c_char_p), ("data_bytes", c_size_t), ("kind", c_int32), ("image_tokens", c_int32),
                ("width", c_int32), ("height", c_int32)]


class Request(Sized):
    _fields_ = [("size", c_size_t), ("messages", c_char_p), ("tools", c_char_p), ("ids", POINTER(c_int32)), ("id_count", c_size_t),
                ("schema", c_char_p), ("stops", POINTER(c_char_p)), ("stop_count", c_size_t), ("sampling", POINTER(Sampling)),
                ("flags", c_uint32), ("reading", c_int32), ("max_tokens", c_int32), ("top_logprobs", c_int32),
                ("media", POINTER(POINTER(Medium))), ("media_count", c_size_t)]


class Event(Sized):
    _fields_ = [("size", c_size_t), ("text", c_char_p), ("text_bytes", c_size_t), ("arguments", c_char_p),
                ("arguments_bytes", c_size_t), ("kind", c_int32), ("ending", c_int32)]


GIVEN_TEMPERATURE, IMAGE_FILE, TEXT, TOOL_CALL, END = 1, 1, 1, 3, 1


class Lapidary:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)

    def call(self, name, *arguments):
        error = Error()
        status = getattr(self.library, "lapidary_" + name)(*arguments, byref(error))
        if status < 0:
            raise RuntimeError(error.message.decode())
        return status


def main():
    if len(sys.argv) < 4:
        sys.exit("usage: ask.py LIBRARY MODEL QUESTION [PICTURE...]")
    lapidary = Lapidary(sys.argv[1])
    model, session = c_void_p(), c_void_p()
    lapidary.call("load", sys.argv[2].encode(), byref(ModelOptions(context_tokens=1024)), byref(model))
    lapidary.call("open_session", model, byref(session))

    sampling = Sampling(given=GIVEN_TEMPERATURE)
    files = [open(path, "rb").read() for path in sys.argv[4:]]
    media = [ctypes.pointer(Medium(data=file, data_bytes=len(file), kind=IMAGE_FILE)) for file in files]
    content = [{"type": "image"}] * len(files) + [{"type": "text", "text": sys.argv[3]}]
    messages = json.dumps([{"role": "user", "content": content}]).encode()
    lapidary.call("begin", session, byref(Request(messages=messages, sampling=ctypes.pointer(sampling), media_count=len(media),
                                                  media=(POINTER(Medium) * len(media))(*media))))
    event = Event()
    while lapidary.call("pull", session, byref(event)) != END:
        if event.kind == TEXT:
            print(event.text.decode(), end="", flush=True)
        elif event.kind == TOOL_CALL:
            print(f"{event.text.decode()}({event.arguments.decode()})")
    print()

    count = c_size_t()
    statistics = ctypes.create_string_buffer(65536)
    lapidary.call("statistics", session, statistics, c_size_t(len(statistics)), byref(count))
    print(round(json.loads(statistics.raw[:count.value])["decode_tok_s"]), "tokens per second", file=sys.stderr)
    lapidary.call("free_session", session)
    lapidary.call("free_model", model)


main()

"""Rules of the Metal Shading Language, and of the part of it that this project writes, that no compiler here knows. They
look at text, so they are stricter than the language."""
import re

from source import one_line

BANNED = {
    "double": "there is no double", "virtual": "there are no virtual functions", "try": "there are no exceptions",
    "catch": "there are no exceptions", "throw": "there are no exceptions", "new": "there is no new",
    "delete": "there is no delete", "goto": "there is no goto", "typeid": "there is no RTTI",
    "dynamic_cast": "there is no RTTI",
    "thread_local": "there is no thread_local", "asm": "there is no assembly", "std": "there is no standard library of C++",
    "wchar_t": "there is no wchar_t", "__int128": "there is no such type", "co_await": "there are no coroutines",
    "printf": "there is no printf", "noexcept": "there are no exceptions", "register": "there is no register",
    "vertex": "a keyword", "fragment": "a keyword",
    "static": "no static variables in functions; helpers are inline, tables constant"}
ADDRESS_SPACE = r"\b(?:device|constant|threadgroup|thread)\b"
PROGRAM_SCOPE = r"(constant|constexpr|using|typedef|struct|enum|template|inline|kernel|\[\[|namespace|static_assert)"


def check(shader):
    """The rules for every mode: text that breaks them cannot be translated."""
    for word, why in BANNED.items():
        for match in re.finditer(r"(?<![\w.])%s(?!\w)" % word, shader.clean):
            shader.refuse(match.start(), "'%s': %s" % (word, why))
    for match in re.finditer(r"(?<![\w.])(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])", shader.clean):
        shader.refuse(match.start(), "literal %s needs the suffix f or h: it is double in C++" % match.group(0))
    for match in re.finditer(r'#\s*include\s*(?!<metal_\w+>)\S+', shader.clean):
        shader.refuse(match.start(), "the driver's compiler finds no files to include")


def check_strictly(shader):
    check(shader)
    match = re.search(r"\bkernel\s+(?!void\b|decltype\b|\[\[)\w", shader.clean)
    if match:
        shader.refuse(match.start(), "a kernel returns void")
    for function in shader.functions:
        check_function(shader, function)
    check_recursion(shader)
    check_program_scope(shader)


def check_function(shader, function):
    is_kernel = function.name in shader.kernels
    if not is_kernel and not re.search(r"\binline\b", function.head):
        shader.refuse(function.place, "helper function %s must be inline" % function.name)
    for parameter in function.parameters:
        if re.search(r"[*&]", parameter) and not re.search(ADDRESS_SPACE, parameter):
            shader.refuse(function.place, "pointer or reference without an address space: " + one_line(parameter))
    if not is_kernel and re.search(r"[;{}]\s*threadgroup\s+\w+\s+\w+\s*[\[;]", function.body):
        shader.refuse(function.body_place, "threadgroup variable outside of a kernel")
    declaration = r"[;{}(]\s*((?:const\s+)?[A-Za-z_]\w*(?:\s*<[^;{}()]*>)?(?:\s+const)?\s*[*&]\s*\w+)\s*(?:=|;|\[)"
    for match in re.finditer(declaration, function.body):
        if not re.search(ADDRESS_SPACE, match.group(1)) and not re.match(r"(return|else|case)\b", match.group(1)):
            shader.refuse(function.body_place + match.start(1),
                          "pointer or reference without an address space: " + match.group(1))
    body = re.sub(r"\[\[.*?\]\]", "", function.body)
    match = re.search(r"\[[=&\w, ]*\]\s*(?:\([^()]*\))?\s*(?:->\s*\w+\s*)?\{", body)
    if match and re.search(r"[=(,]\s*$", body[:match.start()]):
        shader.refuse(function.body_place, "a lambda in %s" % function.name)


def check_recursion(shader):
    calls = {}
    for function in shader.functions:
        calls.setdefault((function.name, function.arity), set()).update(function.calls)

    def walk(name, path):
        for called in calls[name]:
            if called in path:
                place = next(f.place for f in shader.functions if (f.name, f.arity) == called)
                shader.refuse(place, "recursion through " + called[0])
            walk(called, path | {called})

    for name in calls:
        walk(name, {name})


def check_program_scope(shader):
    flat, depth = [], 0
    for character in shader.clean:
        depth += character == "{"
        flat.append(character if depth == 0 or character == "\n" else " ")
        depth -= character == "}"
        if character == "}" and depth == 0:
            flat[-1] = ";"
    place = 0
    for statement in "".join(flat).split(";"):
        text = re.sub(r"#(?:\\\n|[^\n])*", "", statement).strip()  # a directive may go on in the next line
        if text and not re.match(PROGRAM_SCOPE, text):
            shader.refuse(place, "a variable at program scope must be constant: " + one_line(text)[:60])
        place += len(statement) + 1

"""What the translator knows of a shader: kernels with their arguments, instantiations, function constants, functions."""
import re
from dataclasses import dataclass, field

from source import Source, closing, one_line, split

SCALARS = "float half bfloat int uint short ushort char uchar long ulong".split()
VECTOR = r"\b(?:%s)[234]\b" % "|".join(SCALARS)

# With these a kernel may have a vector; with the others one number.
GRID_POSITIONS = {
    "thread_position_in_grid", "thread_position_in_threadgroup", "threadgroup_position_in_grid", "threads_per_threadgroup",
    "dispatch_threads_per_threadgroup", "threadgroups_per_grid", "threads_per_grid"}
POSITIONS = GRID_POSITIONS | {
    "thread_index_in_threadgroup", "thread_index_in_simdgroup", "simdgroup_index_in_threadgroup",
    "simdgroups_per_threadgroup", "threads_per_simdgroup"}


@dataclass
class Parameter:
    kind: str                # buffer, threadgroup or position
    at: object               # index or name of the position
    constant_space: bool
    condition: str           # function constant that it depends on, or ""


@dataclass
class Kernel:
    name: str
    parameters: list
    is_template: bool
    place: int
    max_threads: int         # of a threadgroup; 0 when the text says nothing


@dataclass
class FunctionConstant:
    type: str
    name: str
    index: int
    begin: int
    end: int


@dataclass
class DerivedConstant:
    """`constant int n = kRows * 2;`: known when the function constants are."""
    type: str
    name: str
    value: str
    begin: int
    end: int


@dataclass
class Function:
    name: str
    arity: int
    place: int
    parameters: list
    head: str                # what stands before the name
    body: str
    body_place: int
    calls: set = field(default_factory=set)


@dataclass
class Export:
    host_name: str
    expression: str          # of the C++ function
    kernel: Kernel


class Shader(Source):
    def __init__(self, text, name):
        super().__init__(text, name)
        self.function_constants = self.find_function_constants()
        self.derived_constants = self.find_derived_constants()
        self.kernels = self.find_kernels()
        self.exports, self.instantiations = self.find_exports()
        self.functions = self.find_functions()

    def find_function_constants(self):
        found = []
        pattern = r"\bconstant\s+(\w+)\s+(\w+)\s*\[\[\s*function_constant\s*\(\s*(\d+)\s*\)\s*\]\]\s*;"
        for match in re.finditer(pattern, self.clean):
            constant = FunctionConstant(match.group(1), match.group(2), int(match.group(3)), match.start(), match.end())
            for other in found:
                if other.index == constant.index or other.name == constant.name:
                    self.refuse(match.start(), "function constants %s and %s are one" % (other.name, constant.name))
            found.append(constant)
        return found

    def find_derived_constants(self):
        found = []
        names = [constant.name for constant in self.function_constants]
        for match in re.finditer(r"\bconstant\s+(\w+)\s+(\w+)\s*=\s*([^;{}]*);", self.clean):
            if names and re.search(r"\b(?:%s)\b" % "|".join(names), match.group(3)):
                found.append(DerivedConstant(match.group(1), match.group(2), match.group(3), match.start(), match.end()))
                names.append(match.group(2))
        return found

    def find_kernels(self):
        kernels = {}
        pattern = r"(?:\bkernel|\[\[\s*kernel\s*\]\])\s+(?:\[\[[^\]]*\]\]\s*)*void\s+(\w+)\s*\("
        for match in re.finditer(pattern, self.clean):
            end = closing(self.clean, match.end() - 1)
            parameters = self.parameters_of(match.start(), self.clean[match.end():end])
            attributes = re.search(r"(\[\[[^\]]*\]\]\s*)*$", self.clean[:match.start()]).group(0) + match.group(0)
            limit = re.search(r"\bmax_total_threads_per_threadgroup\s*\(\s*(\d+)\s*\)", attributes)
            is_template = self.follows_template(match.start())
            kernels[match.group(1)] = Kernel(match.group(1), parameters, is_template, match.start(),
                                             int(limit.group(1)) if limit else 0)
        return kernels

    def parameters_of(self, place, text):
        parameters, position_types = [], set()
        for part in split(text):
            parameter = self.parameter_of(place, part)
            for other in parameters:
                if (other.kind, other.at) == (parameter.kind, parameter.at):
                    self.refuse(place, "two parameters are bound to %s %s" % (parameter.kind, parameter.at))
            parameters.append(parameter)
            if parameter.kind != "position":
                continue
            type_name = one_line(re.sub(r"\[\[.*", "", part, flags=re.S)).split()[-2]
            fits = re.match(r"(uint|ushort)[23]?$", type_name)
            if not fits or (parameter.at not in GRID_POSITIONS and type_name[-1] in "23"):
                self.refuse(place, "%s cannot be of type %s" % (parameter.at, type_name))
            if parameter.at in GRID_POSITIONS:
                position_types.add(type_name)
        if len(position_types) > 1:
            self.refuse(place, "positions in the grid have different types: " + ", ".join(sorted(position_types)))
        return parameters

    def parameter_of(self, place, text):
        attributes = [one_line(a) for group in re.findall(r"\[\[(.*?)\]\]", text, flags=re.S) for a in split(group)]
        condition = ""
        for attribute in attributes:
            match = re.match(r"function_constant\s*\(\s*(\w+)\s*\)$", attribute)
            if match:
                condition = match.group(1)
        constant_space = bool(re.search(r"\bconstant\b", text.split("[[")[0]))
        for attribute in attributes:
            match = re.match(r"(buffer|threadgroup)\s*\(\s*(\d+)\s*\)$", attribute)
            if match:
                return Parameter(match.group(1), int(match.group(2)), constant_space, condition)
            if attribute in POSITIONS:
                return Parameter("position", attribute, False, "")
        return self.refuse(place, "a kernel parameter without a binding that is known: " + one_line(text))

    def follows_template(self, place):
        before = re.sub(r"(\[\[[^\]]*\]\]\s*)+$", "", self.clean[:place].rstrip()).rstrip()
        if not before.endswith(">"):
            return False
        depth = 0
        for i in range(len(before) - 1, -1, -1):
            depth += (before[i] == ">") - (before[i] == "<")
            if depth == 0:
                return before[:i].rstrip().endswith("template")
        return False

    def find_exports(self):
        """Kernels that the host can name: those that are no templates, and explicit instantiations of the others, written
        template [[host_name("n")]] kernel decltype(f<A>) f<A>;"""
        exports, instantiations = [], []
        for kernel in self.kernels.values():
            if kernel.is_template:
                continue
            named = re.search(r'\[\[\s*host_name\s*\(\s*"(\w+)"\s*\)\s*\]\]\s*$', self.text[:kernel.place])
            exports.append(Export(named.group(1) if named else kernel.name, kernel.name, kernel))
        pattern = (r'template\s*\[\[\s*host_name\s*\(\s*"(\w+)"\s*\)\s*\]\]\s*(?:kernel|\[\[\s*kernel\s*\]\])\s+'
                   r'decltype\s*\(\s*(\w+)\s*(<[^;]*?>)\s*\)\s*\2\s*\3\s*;')
        for match in re.finditer(pattern, self.text):
            if self.clean[match.start()] == " ":
                continue  # in a comment
            if match.group(2) not in self.kernels:
                self.refuse(match.start(), "there is no kernel " + match.group(2))
            exports.append(Export(match.group(1), match.group(2) + match.group(3), self.kernels[match.group(2)]))
            instantiations.append((match.start(), match.end()))
        names = [export.host_name for export in exports]
        for name in names:
            if names.count(name) > 1:
                self.refuse(0, "two kernels are called " + name)
        return exports, instantiations

    def find_functions(self):
        """The functions at program scope."""
        functions, depth, last = [], 0, 0
        for match in re.finditer(r"\b(\w+)\s*\(", self.clean):
            between = self.clean[last:match.start()]
            depth += between.count("{") - between.count("}")
            last = match.start()
            if depth != 0:
                continue
            end = closing(self.clean, match.end() - 1)
            opened = re.match(r"\s*(const\s*)?\{", self.clean[end + 1:])
            if not opened:
                continue
            body_begin = end + opened.end()
            body_end = closing(self.clean, body_begin)
            parameters = split(self.clean[match.end():end])
            head_begin = max(self.clean.rfind(character, 0, match.start()) for character in ";}>")
            head, body = self.clean[head_begin + 1:match.start()], self.clean[body_begin:body_end]
            functions.append(Function(match.group(1), len(parameters), match.start(), parameters, head, body, body_begin))
        known = {(function.name, function.arity) for function in functions}
        for function in functions:
            for match in re.finditer(r"\b(\w+)\s*(?:<[^;(){}]*>)?\s*\(", function.body):
                arguments = split(function.body[match.end():closing(function.body, match.end() - 1)])
                if (match.group(1), len(arguments)) in known:
                    function.calls.add((match.group(1), len(arguments)))
        return functions

    def reached_from(self, name):
        """All functions that a kernel comes to, itself included."""
        reached, waiting = set(), [f for f in self.functions if f.name == name]
        while waiting:
            function = waiting.pop()
            if function.place in reached:
                continue
            reached.add(function.place)
            waiting += [f for f in self.functions if (f.name, f.arity) in function.calls]
        return [f for f in self.functions if f.place in reached]

    def constants_read_by(self, kernel):
        """Indices of the function constants that must have a value. One that the text asks about may be without."""
        text = " ".join(function.body for function in self.reached_from(kernel.name))
        for constant in reversed(self.derived_constants):
            if re.search(r"\b%s\b" % constant.name, text):
                text += " " + constant.value
        asked = set(re.findall(r"\bis_function_constant_defined\s*\(\s*(\w+)\s*\)", text))
        return [constant.index for constant in self.function_constants
                if constant.name not in asked and re.search(r"\b%s\b" % constant.name, text)]

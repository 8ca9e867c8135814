#!/usr/bin/env python3
"""Rewrites shader text for another compiler: msl.py cpu|lint|cuda IN.metal [NAME IN MESSAGES] > OUT

Little is changed: address spaces, attributes, threadgroup variables, function constants, and how vectors are made. Lines
keep their numbers, so that messages of the compiler point into the shader text. What it does not know it refuses."""
import re
import sys

import rules
from shader import VECTOR, Shader
from source import Refusal, blank, closing, split


def replace_words(text, table):
    """Whole words, but not members."""
    if not table:
        return text
    pieces, last = [], 0
    for match in re.finditer(r"(?<![\w.])(%s)(?!\w)" % "|".join(table), blank(text)):
        pieces += [text[last:match.start()], table[match.group(1)]]
        last = match.end()
    return "".join(pieces) + text[last:]


def replace_spans(text, edits):
    """Each (begin, end, new text), with as many line ends as there were."""
    for begin, end, new in sorted(edits, reverse=True):
        text = text[:begin] + new + "\n" * (text.count("\n", begin, end) - new.count("\n")) + text[end:]
    return text


def without_attributes(text):
    return re.sub(r"\[\[.*?\]\]", lambda match: "\n" * match.group(0).count("\n"), text, flags=re.S)


def threadgroup_variables(shader):
    """(begin, end, type, name, dimensions) of each."""
    pattern = r"\bthreadgroup\s+((?:const\s+)?\w+(?:\s*<[^;<>]*>)?)\s+(\w+)\s*((?:\[[^\]\[]+\]\s*)*)([;=,)])"
    for match in re.finditer(pattern, shader.clean):
        if match.group(4) != ";":
            shader.refuse(match.start(), "threadgroup variable %s: one declaration each, nothing assigned" % match.group(2))
        yield match.start(), match.end(), match.group(1), match.group(2), match.group(3)


class Cpu:
    """C++ for the software device."""

    def __init__(self, shader):
        self.shader = shader

    def edits(self):
        for constant in self.shader.function_constants:
            yield (constant.begin, constant.end, "static const softmetal::ConstantAt<%s, %d> %s_constant;" %
                   (constant.type, constant.index, constant.name))
        for constant in self.shader.derived_constants:
            yield (constant.begin, constant.end, "inline %s %s_constant() { return %s; }" %
                   (constant.type, constant.name, constant.value))
        for begin, end in self.shader.instantiations:
            yield begin, end, ""
        for number, (begin, end, type_name, name, dimensions) in enumerate(threadgroup_variables(self.shader)):
            yield (begin, end, "typedef %s %s_type%s; %s_type& %s = softmetal::threadgroup_variable<%s_type>(%d);" %
                   (type_name, name, dimensions, name, name, name, number))

    def uses_of_constants(self):
        table = {constant.name: constant.name + "_constant.value()" for constant in self.shader.function_constants}
        table.update({constant.name: constant.name + "_constant()" for constant in self.shader.derived_constants})
        return table

    def text(self):
        shader = self.shader
        text = without_attributes(replace_spans(shader.text, self.edits()))
        text = re.sub(r"#\s*pragma\s+METAL\s+fp\s+contract\b", "#pragma clang fp contract", text)
        text = re.sub(r"\bis_function_constant_defined\s*\(\s*(\w+)\s*\)", r"\1_constant.defined()", text)
        text = replace_words(text, self.uses_of_constants())
        text = re.sub("(%s|\\bvec\\s*<[^<>;(){}]*>)(?=\\s*\\()" % VECTOR, r"softmetal::make<\1>", text)
        text = replace_words(text, {"device": "", "thread": "", "threadgroup": "", "constant": "const", "kernel": "static"})
        return '#line 1 "%s"\n%s\n%s' % (shader.name, text, self.table())

    def binding(self, parameter):
        if parameter.kind == "buffer":
            condition = [c.index for c in self.shader.function_constants if c.name == parameter.condition]
            space = "true" if parameter.constant_space else "false"
            return "softmetal::BufferAt<%d, %s, %d>" % (parameter.at, space, (condition + [-1])[0])
        if parameter.kind == "threadgroup":
            return "softmetal::ThreadgroupAt<%d>" % parameter.at
        return "softmetal::PositionAt<softmetal::%s>" % parameter.at

    def table(self):
        """What the library holds, for the device."""
        lines, kernels = [], []
        for number, export in enumerate(self.shader.exports):
            bindings = "".join(", " + self.binding(parameter) for parameter in export.kernel.parameters)
            lines.append("typedef softmetal::Entry<decltype(&%s), &%s%s> softmetal_entry%d;" %
                         (export.expression, export.expression, bindings, number))
            read = self.shader.constants_read_by(export.kernel)
            lines.append("static const int softmetal_read%d[] = {%s};" % (number, ", ".join(map(str, read + [-1]))))
            kernels.append('{"%s", &softmetal_entry%d::call, softmetal_entry%d::kArguments, %d, softmetal_read%d, %d, %d}' %
                           (export.host_name, number, number, len(export.kernel.parameters), number, len(read),
                            export.kernel.max_threads))
        constants = ['{"%s", "%s", %d, sizeof(%s)}' % (constant.name, constant.type, constant.index, constant.type)
                     for constant in self.shader.function_constants]
        lines.append("static const softmetal::Kernel softmetal_kernels[] = {%s};" % ",\n".join(kernels + ["{}"]))
        lines.append("static const softmetal::FunctionConstant softmetal_constants[] = {%s};" %
                     ",\n".join(constants + ["{}"]))
        lines.append('extern "C" const softmetal::Library softmetal_library = '
                     "{softmetal_kernels, %d, softmetal_constants, %d};" % (len(kernels), len(constants)))
        return "\n".join(lines) + "\n"


class Lint:
    """C++ for OpenCL, of all compilers here the one that knows most of what Metal forbids."""

    def __init__(self, shader):
        self.shader = shader

    def edits(self):
        for constant in self.shader.function_constants:
            yield constant.begin, constant.end, "__constant %s %s = 0;" % (constant.type, constant.name)
        for constant in self.shader.derived_constants:
            yield constant.begin, constant.end, "__constant %s %s = 0;" % (constant.type, constant.name)
        for begin, end in self.shader.instantiations:
            yield begin, end, ""
        for begin, end, type_name, name, dimensions in threadgroup_variables(self.shader):
            yield (begin, end, "typedef %s %s_type%s; static_assert(sizeof(%s_type) <= 32768, \"threadgroup memory\"); "
                   "__local %s_type& %s = *(__local %s_type*)1;" % (type_name, name, dimensions, name, name, name, name))

    def made_vectors(self, text):
        """A vector is made by a cast; one that is converted needs a function."""
        pieces, last = [], 0
        for match in re.finditer("(%s)\\s*\\(" % VECTOR, text):
            single = len(split(text[match.end():closing(text, match.end() - 1)])) == 1
            pieces += [text[last:match.start()], ("metal::converted<%s>(" if single else "(%s)(") % match.group(1)]
            last = match.end()
        return "".join(pieces) + text[last:]

    def text(self):
        shader = self.shader
        rules.check_strictly(shader)
        text = self.made_vectors(without_attributes(replace_spans(shader.text, self.edits())))
        # A struct cannot be copied out of OpenCL's __constant, so references to constant are checked as const device.
        text = re.sub(r"\bconstant(\s+\w+\s*&)", r"const device\1", text)
        # The last three are keywords of OpenCL alone.
        text = replace_words(text, {"device": "__global", "thread": "__private", "threadgroup": "__local",
                                    "constant": "__constant", "kernel": "static", "local": "local_name",
                                    "global": "global_name", "generic": "generic_name"})
        lines = ['#line 1 "%s"' % shader.name, text]
        for number, export in enumerate(shader.exports):
            if export.kernel.is_template:
                lines.append("typedef decltype(%s) instance%d; template instance%d %s;" %
                             (export.expression, number, number, export.expression))
        return "\n".join(lines) + "\n"


class Cuda:
    """CUDA C++. The text goes into the namespace, where its names hide CUDA's own."""

    def __init__(self, shader):
        self.shader = shader

    def edits(self):
        for constant in self.shader.function_constants:
            yield (constant.begin, constant.end,
                   'extern "C" { __constant__ %s softmetal_constant_%d; __constant__ bool softmetal_constant_%d_set; }' %
                   (constant.type, constant.index, constant.index))
        for constant in self.shader.derived_constants:
            yield (constant.begin, constant.end,
                   "__device__ inline %s %s_constant() { return %s; }" % (constant.type, constant.name, constant.value))
        for begin, end in self.shader.instantiations:
            yield begin, end, ""
        for begin, end, type_name, name, dimensions in threadgroup_variables(self.shader):
            yield begin, end, "__shared__ %s %s%s;" % (type_name, name, dimensions)
        for place in self.member_functions():
            yield place, place, "__device__ "

    def member_functions(self):
        """Where those begin that nothing marks as code for the device: they need not be inline."""
        clean = self.shader.clean
        for struct in re.finditer(r"\bstruct\s+\w[^;{}()]*\{", clean):
            end = closing(clean, struct.end() - 1)
            depth, last = 0, struct.end()
            for match in re.finditer(r"[{}]|\b\w+\s*\([^()]*\)\s*(?:const\s*)?(?=\{)", clean[struct.end():end]):
                if match.group(0) in "{}":
                    depth += 1 if match.group(0) == "{" else -1
                    last = struct.end() + match.end()
                elif depth == 0:
                    begin = max(last, clean.rfind(";", last, struct.end() + match.start()) + 1)
                    begin += len(clean[begin:]) - len(clean[begin:].lstrip())
                    if not re.search(r"\binline\b", clean[begin:struct.end() + match.start()]):
                        yield begin

    def text(self):
        shader = self.shader
        text = without_attributes(replace_spans(shader.text, self.edits()))
        text = re.sub(r"\.([xyzw]{2,4})\b(?!\s*\()", self.swizzle, text)
        text = re.sub(VECTOR, r"m_\g<0>", text)
        text = re.sub(r"#include\s*<metal_\w+>", '#include "metal_stdlib.h"', text)
        for constant in shader.function_constants:
            text = re.sub(r"\bis_function_constant_defined\s*\(\s*%s\s*\)" % constant.name,
                          "softmetal_constant_%d_set" % constant.index, text)
        table = {constant.name: "softmetal_constant_%d" % constant.index for constant in shader.function_constants}
        table.update({constant.name: constant.name + "_constant()" for constant in shader.derived_constants})
        text = replace_words(text, table)
        text = replace_words(text, {"device": "", "thread": "", "threadgroup": "", "constant": "const",
                                    "kernel": "__device__", "inline": "__device__ inline"})
        text = re.sub(r"using\s+namespace\s+metal\s*;", "namespace metal {", text, count=1)
        return '#line 1 "%s"\n%s\n}\n%s' % (shader.name, text, self.entries())

    def swizzle(self, match):
        return ".swizzle(metal::Axes<%s>())" % ", ".join(str("xyzw".index(axis)) for axis in match.group(1))

    def binding(self, parameter):
        if parameter.kind == "position":
            return "metal::PositionAt<metal::%s>" % parameter.at
        return "metal::%sAt<%d>" % ({"buffer": "Buffer", "threadgroup": "Threadgroup"}[parameter.kind], parameter.at)

    def entries(self):
        lines = []
        for export in self.shader.exports:
            bindings = "".join(", " + self.binding(parameter) for parameter in export.kernel.parameters)
            lines.append('extern "C" __global__ void %s(const metal::Arguments arguments) { '
                         "metal::Entry<decltype(&metal::%s), &metal::%s%s>::call(arguments); }" %
                         (export.host_name, export.expression, export.expression, bindings))
        return "\n".join(lines) + "\n"


MODES = {"cpu": Cpu, "lint": Lint, "cuda": Cuda}


def main():
    mode, path, name = sys.argv[1], sys.argv[2], sys.argv[-1]
    try:
        with open(path) as file:
            shader = Shader(file.read(), name)
        rules.check(shader)
        sys.stdout.write(MODES[mode](shader).text())
    except Refusal as refusal:
        sys.exit(str(refusal))


if __name__ == "__main__":
    main()

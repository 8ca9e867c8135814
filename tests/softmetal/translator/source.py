"""Shader text, and the small means to look at it: no full parser, but blind to comments and strings."""
import re


class Refusal(Exception):
    """The text is not taken."""


def blank(text):
    """Comments and the insides of strings become spaces; every character keeps its place."""

    def fill(match):
        found = match.group(0)
        if found[0] == '"':
            return '"' + " " * (len(found) - 2) + '"'
        return re.sub(r"[^\n]", " ", found)

    # The name in a #line directive stays: places in messages come from it.
    return re.sub(r'(?m)^#line[^\n]*|//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"',
                  lambda m: m.group(0) if m.group(0).startswith("#line") else fill(m), text, flags=re.S)


def closing(text, begin):
    """Where the bracket that opens at `begin` closes."""
    opening = text[begin]
    other = {"(": ")", "{": "}", "[": "]"}[opening]
    depth = 0
    for place in range(begin, len(text)):
        if text[place] == opening:
            depth += 1
        elif text[place] == other:
            depth -= 1
            if depth == 0:
                return place
    raise Refusal("unbalanced " + opening)


def split(text):
    """The parts between commas that are in no brackets."""
    parts, depth, begin = [], 0, 0
    for place, character in enumerate(text):
        if character in "(<[{":
            depth += 1
        elif character in ")>]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[begin:place])
            begin = place + 1
    if text[begin:].strip():
        parts.append(text[begin:])
    return parts


def one_line(text):
    return " ".join(text.split())


class Source:
    def __init__(self, text, name):
        self.text = text
        self.name = name
        self.clean = blank(text)

    def location(self, place):
        """FILE:LINE, where #line directives may have set both."""
        name, line = self.name, 1
        for row in self.clean[:place].split("\n")[:-1]:
            directive = re.match(r'#line\s+(\d+)\s+"([^"]*)"', row)
            if directive:
                name, line = directive.group(2), int(directive.group(1))
            else:
                line += 1
        return "%s:%d" % (name, line)

    def refuse(self, place, why):
        raise Refusal("%s: error: %s" % (self.location(place), why))

#!/usr/bin/env python3
"""Renders chat templates with the real jinja2 and writes what the engine's differential test compares with.

    pip install jinja2==3.1.6
    tests/numerics/template_oracle.py templates ../shared/data/chat_templates ../shared/formats/chat_vectors.json \
        tests/unit/template/golden/chat_templates.json
    tests/numerics/template_oracle.py snippets tests/unit/template/golden/snippets.json

`templates`: every template x every conversation; a cell is the 64-bit FNV-1a hash of the output, or "error" if
the template raised. Each conversation is rendered twice: without tools, and with two tools.
`snippets`: the templates of snippets.json (written by hand) get their "want", or "error": true.

The environment is the one that transformers uses, except that lists and dicts made by the template may be
changed (Kimi-K2 appends to one) and that from_json exists (the DeepSeek templates of llama.cpp use it).
"""
import datetime
import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

NOW = datetime.datetime(2026, 3, 5, 14, 7, 9)  # the differential test injects the same instant

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a \"city\" <now>.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Name, e.g. Zürich"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
                    "days": {"type": "integer", "description": "How many", "default": 1},
                    "where": {"type": "object", "properties": {"lat": {"type": "number"}}, "required": ["lat"]},
                    "tags": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "stop", "description": "Ends.",
                                      "parameters": {"type": "object", "properties": {}}}},
]


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.SandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.filters["from_json"] = json.loads
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = NOW.strftime
    return env


def render(source, variables):
    """The text, or None if anything raised."""
    try:
        return environment().from_string(source).render(**json.loads(json.dumps(variables)))
    except Exception:  # noqa: BLE001: whatever went wrong, the engine must refuse too
        return None


def digest(text):
    if text is None:
        return "error"
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def templates(folder, vectors, out):
    cases = json.loads(pathlib.Path(vectors).read_text())["cases"]
    cells = {}
    for path in sorted(pathlib.Path(folder).glob("*.jinja")):
        with open(path, newline="") as f:
            source = f.read()
        row = {}
        for name, case in cases.items():
            variables = {"messages": case["messages"], "bos_token": "<s>", "eos_token": "</s>", **case["vars"]}
            row[name] = [digest(render(source, {**variables, "tools": tools})) for tools in (None, TOOLS)]
        cells[path.name] = row
    document = {"tools": TOOLS, "now": NOW.strftime("%Y-%m-%dT%H:%M:%S"), "cells": cells}
    pathlib.Path(out).write_text(json.dumps(document, indent=0, ensure_ascii=False) + "\n")
    refused = sum(cell == "error" for row in cells.values() for pair in row.values() for cell in pair)
    print(f"{len(cells)} templates x {len(cases)} conversations x 2, {refused} cells are errors")


def snippets(path):
    document = json.loads(pathlib.Path(path).read_text())
    for snippet in document["snippets"]:
        text = render(snippet["template"], {**document["context"], **snippet.get("context", {})})
        snippet.pop("want", None)
        snippet.pop("error", None)
        snippet.update({"error": True} if text is None else {"want": text})
    lines = ",\n".join("  " + json.dumps(s, ensure_ascii=False) for s in document["snippets"])
    head = json.dumps(document["context"], ensure_ascii=False)
    pathlib.Path(path).write_text(f'{{"context": {head},\n "snippets": [\n{lines}\n ]}}\n')
    print(f"{len(document['snippets'])} snippets, {sum('error' in s for s in document['snippets'])} are errors")


if __name__ == "__main__":
    {"templates": templates, "snippets": snippets}[sys.argv[1]](*sys.argv[2:])

"""The graphs that people can start a canvas from. The editor arranges them."""

from __future__ import annotations

from typing import Any


def _node(id: str, type: str, name: str = "", **config: Any) -> dict[str, Any]:
    return {"id": id, "type": type, "name": name, "config": config, "position": {"x": 0, "y": 0}}


def _edges(*lines: str) -> list[dict[str, str]]:
    """Parse edges written as `a>b`, or `a:true>b` for a branch."""
    found = []
    for line in lines:
        source, target = line.split(">")
        source, _, handle = source.partition(":")
        found.append({"source": source, "target": target, "handle": handle, "label": ""})
    return found


def _form(*required: str, **fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required)}


TEMPLATES: list[dict[str, Any]] = [
    {
        "name": "Draft and approve",
        "about": "The agent writes a draft, a person approves it, and it becomes the result.",
        "nodes": [
            _node("start", "trigger", schema=_form(
                "topic", topic={"type": "string", "title": "Topic"})),
            _node("draft", "agent", "Write a draft", prompt="Write a short text about {{input.topic}}."),
            _node("check", "approval", "Check the draft", message="{{nodes.draft.output}}"),
            _node("done", "output", "Approved text", value="{{nodes.draft.output}}"),
        ],
        "edges": _edges("start>draft", "draft>check", "check>done"),
    },
    {
        "name": "Sort and answer",
        "about": "The agent sorts a message; urgent ones wait for a person.",
        "nodes": [
            _node("start", "trigger", schema=_form(
                "message", message={"type": "string", "title": "Message"})),
            _node("sort", "agent", "How urgent is it?", prompt="Answer with one word, urgent or normal: {{input.message}}"),
            _node("urgent", "condition", "Is it urgent?", expression='nodes.sort.output contains "urgent"'),
            _node("person", "approval", "Answer it now?", message="{{input.message}}"),
            _node("reply", "agent", "Write an answer", prompt="Answer this message politely: {{input.message}}", conversation="own"),
            _node("done", "output", "Answer", value="{{nodes.reply.output}}"),
        ],
        "edges": _edges("start>sort", "sort>urgent", "urgent:true>person", "urgent:false>reply", "person>reply", "reply>done"),
    },
    {
        "name": "Go through a list",
        "about": "The agent works on every item of a list and sums up the results.",
        "nodes": [
            _node("start", "trigger", schema=_form(
                "items", items={"type": "array", "title": "Items", "description": "A JSON list."})),
            _node("each", "loop", "Each item", items="{{input.items}}", on_error="continue",
                  body={"type": "agent", "config": {"prompt": "Say in one sentence what this is: {{item}}"}}),
            _node("sum", "agent", "Sum up", prompt="Sum this up: {{nodes.each.output}}"),
            _node("done", "output", "Summary", value="{{nodes.sum.output}}"),
        ],
        "edges": _edges("start>each", "each>sum", "sum>done"),
    },
    {
        "name": "Fetch and compute",
        "about": "Requests data, computes with Python and passes the result on.",
        "nodes": [
            _node("start", "trigger"),
            _node("fetch", "http", "Get the data", url="https://example.com/data.json"),
            _node("compute", "code", "Compute", code="def main(data):\n    return {\"length\": len(str(data))}\n",
                  data="{{nodes.fetch.output.body}}"),
            _node("done", "output", "Result", value="{{nodes.compute.output}}"),
        ],
        "edges": _edges("start>fetch", "fetch>compute", "compute>done"),
    },
    {
        "name": "Ask twice, compare",
        "about": "Two conversations answer side by side, and a third compares the answers.",
        "nodes": [
            _node("start", "trigger", schema=_form(
                "question", question={"type": "string", "title": "Question"})),
            _node("first", "agent", "First answer", prompt="{{input.question}}", conversation="own"),
            _node("second", "agent", "Second answer", prompt="Answer briefly: {{input.question}}", conversation="own"),
            _node("compare", "agent", "Compare", conversation="own",
                  prompt="Which answer is better, and why?\n\n1: {{nodes.first.output}}\n\n2: {{nodes.second.output}}"),
            _node("done", "output", "Verdict", value="{{nodes.compare.output}}"),
        ],
        "edges": _edges("start>first", "start>second", "first>compare", "second>compare", "compare>done"),
    },
]  # fmt: skip

"""What the demo says: who it is, what it can do, what the tools answered."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from itertools import cycle, islice

from agents.providers.base import ToolResult

WHO = "I am the demo provider, not a model: I know a few phrases and call real tools."
QUOTE_LENGTH = 600
SUMMARY_LINES = 40
SUMMARY_LINE_LENGTH = 160
#: What came from outside, between the marks that tell a model so.
FENCED = re.compile(r"<<<UNTRUSTED (\S{1,40})>>>[^\n]*\n(.*?)\n<<<END UNTRUSTED \1>>>", re.DOTALL)

#: Which phrase tries which tool.
EXAMPLES = {
    "memory_store": "remember that the office closes at six",
    "memory_search": "what do you know about the office?",
    "list_directory": "list the files",
    "write": "write hello to notes.md",
    "read": "read notes.md",
    "edit": "replace hello with goodbye in notes.md",
    "exec": "run ls -la",
    "web_fetch": "fetch https://example.com",
    "web_search": "search the web for switchyards",
    "sessions_spawn": "ask a sub-agent to list the files",
    "message": "tell me something",
    "wait": "wait for 20 seconds",
    "builder_update_agent": "make an agent that answers billing questions",
    "builder_set_policy": "let it read files but ask before running commands",
    "builder_add_step": "add a step that checks the invoice",
    "builder_get_agent": "show me the draft",
    "builder_publish": "publish it",
}

_LOREM = (
    "lorem", "ipsum", "dolor", "sit", "amet", "consectetur", "adipiscing", "elit", "sed", "do",
    "eiusmod", "tempor", "incididunt", "ut", "labore", "et", "dolore", "magna", "aliqua", "enim",
)  # fmt: skip
_DENIED = re.compile(r"\b(?:denied|refused|not allowed|may not|forbidden)\b", re.IGNORECASE)


def filler(count: int) -> str:
    """So many words that mean nothing."""
    return " ".join(islice(cycle(_LOREM), count))


def count_to(number: int) -> str:
    return " ".join(str(one) for one in range(1, number + 1))


def help_text(offered: Sequence[str]) -> str:
    """Who speaks, and what can be asked of it with these tools."""
    known = [f"- “{EXAMPLES[name]}” → `{name}`" for name in EXAMPLES if name in offered]
    others = [f"`{name}`" for name in offered if name not in EXAMPLES]
    lines = [WHO, ""]
    if known:
        lines += ["With the tools of this agent you can ask:", "", *known, ""]
    if others:
        lines += [f"Other tools of this agent: {', '.join(others)}.", ""]
    if offered:
        lines += [
            f'Any tool can be tried with “use {offered[0]} with {{"name": "value"}}”.',
            "Join requests with “and then”, or write “in parallel: one; two”.",
        ]
    else:
        lines += ["This agent may use no tools, so I can only talk."]
    return "\n".join(
        [
            *lines,
            "I also understand “say …”, “say 50 words” and “count to 10”.",
            "For testing: “fail with overload”, “fail with rejection”, “fail with overflow”.",
        ]
    )


def missing(tool: str) -> str:
    return f"I would need the tool `{tool}`, which this agent may not use."


def announcement(tools: Sequence[str]) -> str:
    named = ", ".join(f"`{name}`" for name in tools)
    return f"I call {named}." if len(tools) == 1 else f"I call {named} side by side."


def account(results: Iterable[ToolResult]) -> str:
    """What the tools answered, one paragraph each."""
    return "\n\n".join(_told(result) for result in results)


def summary_of(text: str) -> str:
    """The beginning of each line after the request itself; the best that no model can do."""
    lines = [line.strip() for line in text.splitlines()[1:] if line.strip()]
    picked = [clip(line, SUMMARY_LINE_LENGTH) for line in lines[-SUMMARY_LINES:]]
    heading = "The demo provider is not a model; this is the beginning of each line:"
    return "\n".join([heading, *(f"- {line}" for line in picked)])


def _told(result: ToolResult) -> str:
    name, output = f"`{result.name}`", _said(result.output)
    if result.is_error:
        verb = "was denied" if _DENIED.search(output) else "failed"
        return f"{name} {verb}: {_quote(output)}" if output else f"{name} {verb}."
    return f"{name} answered: {_quote(output)}" if output else f"{name} is done and said nothing."


def _said(output: str) -> str:
    """An answer as people want it: without fences, and of a sub-agent only what it said."""
    bare = FENCED.sub(lambda found: _said(found[2]), output).strip()
    if not bare.startswith('{"result":'):
        return bare
    try:
        return str(json.loads(bare)["result"]).strip()
    except ValueError:
        return bare  # It was cut.


def _quote(output: str) -> str:
    clipped = clip(output, QUOTE_LENGTH)
    if "\n" not in clipped:
        return f"“{clipped}”"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", clipped)), default=0))
    return f"\n\n{fence}\n{clipped}\n{fence}"


def clip(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1].rstrip()}…"

"""The words of the demo provider: help, announcements of calls, and reports of their results."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from functools import cache
from zoneinfo import ZoneInfo, available_timezones

from agents.providers.base import JSON, ToolResult
from agents.providers.demo.records import FENCED, clip

INTRODUCTION = "I'm the built-in demo, not a model: I follow simple requests with real tools."
#: The page where people add a provider's key. Markdown of agents may link to no other page.
PROVIDERS_PAGE = "/settings/providers/"
CONNECT = f"[Connect a model]({PROVIDERS_PAGE})"
QUOTE_LENGTH = 600
MOST_EXAMPLES = 3

#: Requests that succeed in an empty chat, each with the tools that it needs.
EXAMPLES: tuple[tuple[frozenset[str], str], ...] = (
    (frozenset({"builder_update_agent"}), "Make an agent that answers billing questions"),
    (frozenset({"builder_set_policy"}), "Let it read files but ask before running commands"),
    (frozenset({"builder_add_step"}), "Add a step that checks the invoice"),
    (frozenset({"memory_store"}), "Remember that the office closes at six"),
    (frozenset({"write", "read"}), 'Write "milk, bread" to list.md and then read list.md'),
    (frozenset({"list_directory"}), "List the files"),
    (frozenset(), "What time is it in Tokyo?"),
    (frozenset(), "What did I tell you?"),
    (frozenset(), "Count to 10"),
)


def help_text(offered: Collection[str], opening: str = "") -> str:
    """Say what the demo is, and offer three requests that work with these tools and a model."""
    works = [text for needed, text in EXAMPLES if needed.issubset(offered)][:MOST_EXAMPLES]
    examples = "\n".join(f"- {text}" for text in works)
    first = f"{opening} {INTRODUCTION}".strip()
    return f"{first}\n\nTry one of these:\n\n{examples}\n\n{CONNECT}"


def time_text(place: str | None, now: datetime | None = None) -> str:
    """Say what time it is in a city, or in UTC."""
    now = now or datetime.now(UTC)
    zone = zone_of(place) if place else "UTC"
    if zone is None:
        return f"I don't know the time zone of {place}. {time_text(None, now)}"
    local = now.astimezone(ZoneInfo(zone))
    where = f"in {zone.rsplit('/')[-1].replace('_', ' ')}" if place and zone != "UTC" else "UTC"
    return f"It is {local:%H:%M} {where} on {local:%A}, {local.day} {local:%B %Y}."


def zone_of(place: str) -> str | None:
    """Return the time zone that is named after a city."""
    return _zones().get(" ".join(place.casefold().split()))


@cache
def _zones() -> dict[str, str]:
    names = (name for name in sorted(available_timezones()) if "/" in name or name == "UTC")
    return {name.rsplit("/")[-1].replace("_", " ").casefold(): name for name in names}


def told_text(facts: list[str]) -> str:
    """Repeat what a person asked the demo to remember in this chat."""
    if not facts:
        return (
            "You haven't told me anything in this chat yet. Start a message with “Remember that”, "
            "or ask “What do you know about …?” to search what was saved in other chats."
        )
    return "You told me:\n\n" + "\n".join(f"- {fact}" for fact in facts)


#: What each call does, as the beginning of a sentence.
ACTIONS = {
    "memory_store": "Saving that to memory",
    "memory_search": "Searching memory for “{query}”",
    "list_directory": "Listing the files",
    "write": "Writing {path}",
    "edit": "Editing {path}",
    "read": "Reading {path}",
    "exec": "Running `{command}`",
    "web_fetch": "Fetching {url}",
    "web_search": "Searching the web for “{query}”",
    "sessions_spawn": "Asking a sub-agent",
    "message": "Sending the message",
    "wait": "Waiting for {seconds} seconds",
    "builder_update_agent": "Changing the draft",
    "builder_set_policy": "Changing the policy",
    "builder_add_step": "Adding the step",
    "builder_get_agent": "Reading the draft",
    "builder_publish": "Publishing the agent",
}


def action_text(tool: str, arguments: JSON) -> str:
    """Say what a call does."""
    try:
        return clip(" ".join(ACTIONS[tool].format_map(arguments).split()), 200)
    except KeyError:
        return f"Calling `{tool}`"


_DENIED = re.compile(r"\b(?:denied|refused|not allowed|may not|forbidden)\b", re.IGNORECASE)


def report(result: ToolResult, arguments: JSON) -> str:
    """Report the result of a call."""
    output = _readable(result.output)
    if result.is_error:
        verb = "was denied" if _DENIED.search(output) else "failed"
        action = action_text(result.name, arguments)
        return f"{action} {verb}: {_quote(output)}" if output else f"{action} {verb}."
    if result.name in REPORTS:
        return REPORTS[result.name](output, arguments)
    return f"`{result.name}` returned: {_quote(output)}" if output else "Done."


def _found(output: str, arguments: JSON) -> str:
    """List the excerpts of a search, without their paths and scores."""
    excerpts = [" ".join(text.split()) for text in _HIT.split(output)[1:]]
    if not excerpts:
        return (
            f"I found nothing about “{arguments.get('query', '')}” in memory. "
            "Tell me with “Remember that …”."
        )
    return "Here is what I found:\n\n" + "\n".join(f"- {clip(one, 200)}" for one in excerpts)


_HIT = re.compile(r"^\d{1,3}\. \S.* \(.*score [\d.]+.*\)$", re.MULTILINE)


def _files(output: str, arguments: JSON) -> str:
    if output.endswith(" is empty."):
        return "There are no files yet."
    return "These are the files:\n\n" + "\n".join(f"- {line}" for line in output.splitlines())


def _command(output: str, arguments: JSON) -> str:
    printed, _, code = output.rpartition("[exit code ")
    code, command = code.rstrip("]"), f"`{arguments.get('command', '')}`"
    if code != "0":
        ended = f"{command} failed with exit code {code}"
        return f"{ended}: {_quote(printed.strip())}" if printed.strip() else f"{ended}."
    if not printed.strip():
        return f"{command} finished without output."
    return f"{command} printed: {_quote(printed.strip())}"


REPORTS: dict[str, Callable[[str, JSON], str]] = {
    "memory_store": lambda output, given: f"Saved: {given.get('content', '')}",
    "memory_search": _found,
    "list_directory": _files,
    "write": lambda output, given: f"Wrote {given.get('path', '')}.",
    "edit": lambda output, given: f"Changed {given.get('path', '')}.",
    "read": lambda output, given: f"{given.get('path', '')} says: {_quote(output)}",
    "exec": _command,
    "web_fetch": lambda output, given: f"The page says: {_quote(output)}",
    "web_search": lambda output, given: f"Here is what I found: {_quote(output)}",
    "sessions_spawn": lambda output, given: f"The sub-agent says: {_quote(output)}",
    "message": lambda output, given: "Sent.",
    "wait": lambda output, given: output,
    "builder_update_agent": lambda output, given: output,
    "builder_set_policy": lambda output, given: output,
    "builder_publish": lambda output, given: output,
}


def _readable(output: str) -> str:
    """Return an output without fences, and of a sub-agent's result only its text."""
    bare = FENCED.sub(lambda found: _readable(found[2]), output).strip()
    if not bare.startswith('{"result":'):
        return bare
    try:
        return str(json.loads(bare)["result"]).strip()
    except ValueError:
        return bare  # The output was cut.


def _quote(output: str) -> str:
    clipped = clip(output, QUOTE_LENGTH)
    if "\n" not in clipped:
        return f"“{clipped}”"
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", clipped)), default=0))
    return f"\n\n{fence}\n{clipped}\n{fence}"

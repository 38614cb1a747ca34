"""Turns a phrase that was understood into its step: which tool, with which arguments."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import TypeAlias

from agents.providers.base import JSON
from agents.providers.demo.steps import Calls, Fail, Say, Step, Wish
from agents.providers.demo.words import count_to, filler

MOST_WORDS = 20_000
LONGEST_TITLE = 80
GREETING = "Hello from the demo provider."

_MINUTES = re.compile(r"m(?:in.*)?", re.IGNORECASE)
_MILLISECONDS = re.compile(r"m(?:s|illi.*)", re.IGNORECASE)

Match: TypeAlias = re.Match[str]


def _call(tool: str, **arguments: object) -> Calls:
    given = {name: value for name, value in arguments.items() if value is not None}
    return Calls(wishes=(Wish(tool=tool, arguments=given),))


def _bare(text: str) -> str:
    """The text without one pair of quotation marks around it."""
    text = text.strip()
    for opening, closing in ('""', "''", "``", "“”", "<>"):
        if len(text) > 1 and text[0] == opening and text[-1] == closing:
            return text[1:-1]
    return text


def remember(match: Match) -> Step:
    fact = _bare(match["fact"])
    words = re.findall(r"[a-z0-9]+", fact.lower())[:6]
    name = "-".join(words)[:48] or sha256(fact.encode()).hexdigest()[:12]
    return _call("memory_store", path=f"notes/{name}.md", content=fact)


def run(match: Match) -> Step:
    command = match["command"].strip()
    # "run ls." ends a sentence, "run ls ." names a folder.
    if re.search(r"\w[.!?]$", command) or re.search(r"`[.!?]$", command):
        command = command[:-1]
    return _call("exec", command=_bare(command))


def fetch(match: Match) -> Step:
    url = _bare(match["url"])
    return _call("web_fetch", url=url if "://" in url else f"https://{url}")


def wait(match: Match) -> Step:
    number, unit = float(match["number"]), match["unit"] or "s"
    if _MILLISECONDS.fullmatch(unit):
        number /= 1000
    elif _MINUTES.fullmatch(unit):
        number *= 60
    return _call("wait", seconds=int(number) if number.is_integer() else number)


def message(match: Match) -> Step:
    groups = match.groupdict()
    text = _bare(groups.get("text") or "")
    if not text or text.rstrip(".!?").lower() == "something":
        text = GREETING
    to = (groups.get("to") or "").strip() or None
    # Nobody by name: everybody in the workspace is told.
    to = None if (to or "").lower() in {"me", "us", "people", "everybody", "everyone"} else to
    title = " ".join(text.split())[:LONGEST_TITLE] or GREETING
    return _call("message", title=title, body=text, to=to)


def use(match: Match) -> Step:
    raw = match["json"] or "{}"
    try:
        arguments: JSON = json.loads(raw)
    except ValueError as error:
        return Say(text=f"The arguments for `{match['tool']}` are not valid JSON: {error}.")
    return Calls(wishes=(Wish(tool=match["tool"], arguments=arguments, literal=True),))


def fail(match: Match) -> Step:
    kind = match["kind"].lower()
    if kind == "overload":
        return Fail(kind="overload")
    return Fail(kind="rejection") if kind == "rejection" else Fail(kind="overflow")


def search(match: Match) -> Step:
    return _call("web_search", query=_bare(match["query"]))


def recall(match: Match) -> Step:
    return _call("memory_search", query=_bare(match["query"]))


def read(match: Match) -> Step:
    return _call("read", path=_bare(match["path"]))


def write(match: Match) -> Step:
    return _call("write", path=_bare(match["path"]), content=_bare(match["content"]))


def edit(match: Match) -> Step:
    return _call(
        "edit", path=_bare(match["path"]), old=_bare(match["old"]), new=_bare(match["new"])
    )


def list_files(match: Match) -> Step:
    return _call("list_directory", path=_bare(match["path"] or "."))


def spawn(match: Match) -> Step:
    return _call("sessions_spawn", task=_bare(match["task"]))


def say_words(match: Match) -> Step:
    return Say(text=filler(min(int(match["number"]), MOST_WORDS)))


def count(match: Match) -> Step:
    return Say(text=count_to(min(int(match["number"]), MOST_WORDS)))


def say(match: Match) -> Step:
    return Say(text=_bare(match["text"]))

"""Reads the policy page's form: a choice per tool, and the rules that are about more than one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.http import QueryDict

from agents.inputs import read_input
from config.faults import Invalid
from tools_app.pages.choices import Rule, words_from
from tools_app.places import Place
from tools_app.policy_input import PolicyInput, columns_of

CHOICE = "choice:"


def words_in(
    post: QueryDict, place: Place, tools: Iterable[str], before: Mapping[str, Any]
) -> dict[str, Any]:
    """The words of the policy that the form makes, checked, as they would be stored."""
    choices = {name: post.get(f"{CHOICE}{name}", "default") for name in tools}
    rules = [
        Rule(verdict=verdict, text=text.strip())
        for verdict, text in zip(post.getlist("verdict"), post.getlist("rule"), strict=False)
    ]
    given = {
        "profile": post.get("profile"),
        "max_tool_calls_per_turn": _whole(post.get("max_tool_calls_per_turn", "")),
    }
    words = words_from(given, choices, rules, before)
    return columns_of(read_input(PolicyInput, words), place.layer)


def _whole(text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise Invalid("Calls per turn is a whole number.")
    return int(text)


def number_in(post: QueryDict, name: str) -> int | None:
    """A revision's number, if there is one."""
    text = post.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else None

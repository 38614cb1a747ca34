"""A policy as a person edits it: one choice per tool, and the rules that are about more than one.

A choice is a rule that names exactly one tool. To allow is written as `name(*)`: unlike the bare name
it narrows no other tool.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tools_app.policy_input import LISTS
from tools_app.registry import Category, Tool

Choice: TypeAlias = Literal["default", "allow", "ask", "deny"]
#: The strictest first: what a person sees when two lists name the same tool.
STRICT_FIRST = ("deny", "ask", "allow")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One rule that no tool's own choice can show."""

    verdict: str
    text: str


def choice_of(tool: str, words: Mapping[str, Any]) -> Choice:
    """What this policy says about exactly this tool."""
    for verdict in STRICT_FIRST:
        if {tool, f"{tool}(*)"} & set(words[LISTS[verdict]]):
            return verdict  # type: ignore[return-value]
    return "default"


def rules_of(words: Mapping[str, Any], tools: Iterable[str]) -> list[Rule]:
    """Every rule beside the choices: groups, globs, patterns, and tools that are not here now."""
    own = {rule for name in tools for rule in (name, f"{name}(*)")}
    return [
        Rule(verdict=verdict, text=rule)
        for verdict in STRICT_FIRST
        for rule in words[LISTS[verdict]]
        if rule not in own
    ]


def narrows(words: Mapping[str, Any]) -> list[str]:
    """The bare names that make everything else denied."""
    return [rule for rule in words["allowed_tools"] if not rule.endswith(")")]


def words_from(
    given: Mapping[str, Any],
    choices: Mapping[str, str],
    rules: Iterable[Rule],
    before: Mapping[str, Any],
) -> dict[str, Any]:
    """The words that these choices and rules make. A tool left as it was keeps its own rule."""
    lists: dict[str, list[str]] = {name: [] for name in LISTS.values()}
    for tool, choice in choices.items():
        if choice == choice_of(tool, before):
            for name in LISTS.values():
                lists[name] += [one for one in before[name] if one in (tool, f"{tool}(*)")]
        elif choice in LISTS:
            lists[LISTS[choice]].append(f"{tool}(*)" if choice == "allow" else tool)
    for rule in rules:
        if rule.verdict in LISTS and rule.text:
            lists[LISTS[rule.verdict]].append(rule.text)
    return {
        "profile": given.get("profile") or None,
        "max_tool_calls_per_turn": given.get("max_tool_calls_per_turn"),
        **{name: _in_old_order(rules, before[name]) for name, rules in lists.items()},
    }


def _in_old_order(rules: list[str], before: Iterable[str]) -> list[str]:
    """What was there stays in its place, so that an unchanged policy is the same words."""
    once = list(dict.fromkeys(rules))
    old = [rule for rule in before if rule in once]
    return [*old, *(rule for rule in once if rule not in old)]


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """What a change says anew, in a line each."""
    said = []
    if before["profile"] != after["profile"]:
        said.append(f"Profile: {before['profile'] or 'none'} \u2192 {after['profile'] or 'none'}")
    most = "max_tool_calls_per_turn"
    if before[most] != after[most]:
        said.append(f"Calls per turn: {_number(before[most])} \u2192 {_number(after[most])}")
    for verdict in STRICT_FIRST:
        name = LISTS[verdict]
        said += [f"+ {verdict} {rule}" for rule in after[name] if rule not in before[name]]
        said += [f"\u2212 {verdict} {rule}" for rule in before[name] if rule not in after[name]]
    return said


def _number(value: Any) -> str:
    return "no bound" if value is None else str(value)


#: What people come to decide about stands first; what only serves the product itself, last.
ORDER = [
    Category.EXEC,
    Category.FILESYSTEM,
    Category.WEB,
    Category.MCP,
    Category.CUSTOM,
    Category.MESSAGING,
    Category.MEMORY,
    Category.SESSION,
    Category.SKILLS,
    Category.TIME,
    Category.CANVAS,
    Category.BUILDER,
]


def by_category(tools: Mapping[str, Tool]) -> dict[str, list[Tool]]:
    """The tools by name, in their groups."""
    groups: dict[str, list[Tool]] = {}
    for tool in sorted(tools.values(), key=lambda one: (ORDER.index(one.category), one.name)):
        groups.setdefault(tool.category.value, []).append(tool)
    return groups

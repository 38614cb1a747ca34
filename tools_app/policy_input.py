"""The words of a policy as they come from outside, and whether they make sense."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints, field_validator

from agents.inputs import STORABLE, Input
from config.faults import InvalidFields
from config.field_errors import FieldError, field_error, told
from tools_app.models.policy import RULE_LENGTH, PolicyFields
from tools_app.policy import Layer, LayerName, unknown_rules
from tools_app.profiles import DEFAULT_PROFILE, PROFILES
from tools_app.registry import Category, Tool
from tools_app.rules import GROUP, parse_rule

MOST_RULES = 200
MOST_CALLS = 10_000
#: How tools are named that come and go with their servers; a glob over them may match none today.
PASSING = f"{Category.MCP}:"
#: What other runtimes call a tool that this one has not got; to deny it is a habit, and no slip.
ELSEWHERE = frozenset({"bash", "shell"})
FIELDS = ("profile", "allowed_tools", "denied_tools", "ask_tools", "max_tool_calls_per_turn")
#: Which list of a policy holds the rules of each verdict.
LISTS = {"allow": "allowed_tools", "ask": "ask_tools", "deny": "denied_tools"}

RuleText = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=RULE_LENGTH),
    STORABLE,
]


def _each_once(rules: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(rules))


Rules = Annotated[tuple[RuleText, ...], Field(max_length=MOST_RULES), AfterValidator(_each_once)]


class PolicyInput(Input):
    profile: str | None = None
    allowed_tools: Rules = ()
    denied_tools: Rules = ()
    ask_tools: Rules = ()
    max_tool_calls_per_turn: int | None = Field(default=None, ge=0, le=MOST_CALLS, strict=True)

    @field_validator("profile")
    @classmethod
    def known_profile(cls, profile: str | None) -> str | None:
        if profile is not None and profile not in PROFILES:
            raise ValueError(f"The profile is one of {', '.join(PROFILES)}.")
        return profile


def words_of(stored: PolicyFields) -> dict[str, Any]:
    """The words of a stored policy, or of one of its revisions."""
    return {name: getattr(stored, name) for name in FIELDS}


def columns_of(given: PolicyInput, layer: str) -> dict[str, Any]:
    """As a row holds them. An agent always has a profile; any other layer may have none."""
    columns = given.model_dump(mode="json")
    if layer == "agent" and not columns["profile"]:
        columns["profile"] = DEFAULT_PROFILE
    return columns


def layer_of(name: LayerName, stored: PolicyFields | Mapping[str, Any]) -> Layer:
    """A row, or its columns, as the layer that is decided by."""
    words = stored if isinstance(stored, Mapping) else words_of(stored)
    return Layer(
        name=name,
        profile=words["profile"],
        allowed=tuple(words["allowed_tools"]),
        denied=tuple(words["denied_tools"]),
        asked=tuple(words["ask_tools"]),
        max_tool_calls_per_turn=words["max_tool_calls_per_turn"],
    )


def input_of(layer: Layer) -> dict[str, Any]:
    """A layer as the words it would be given by."""
    return {
        "profile": layer.profile,
        "allowed_tools": layer.allowed,
        "denied_tools": layer.denied,
        "ask_tools": layer.asked,
        "max_tool_calls_per_turn": layer.max_tool_calls_per_turn,
    }


def check_known(layer: Layer, tools: Mapping[str, Tool]) -> None:
    """Refuse rules that name no tool: in an allow-list such a slip would deny in silence."""
    lists = {
        "allowed_tools": Layer(name=layer.name, allowed=layer.allowed),
        "denied_tools": Layer(name=layer.name, denied=layer.denied),
        "ask_tools": Layer(name=layer.name, asked=layer.asked),
    }
    errors: list[FieldError] = []
    for field, rules in lists.items():
        unknown = [rule for rule in unknown_rules(rules, tools) if not _may_come(rule, field)]
        if unknown:
            said = f"No tool is named {', '.join(unknown)}."
            errors.append(field_error((field,), said, "invalid"))
    if errors:
        raise InvalidFields(told(errors), errors=errors)


def _may_come(rule: str, field: str) -> bool:
    """Whether a rule may be right although no tool matches it now."""
    name = parse_rule(rule).name
    if name.startswith(GROUP):
        return name.removeprefix(GROUP) in set(Category)
    if name in ELSEWHERE and field == "denied_tools":
        return True
    # To forbid what is not there yet is prudent; to allow it by its name is most likely a slip.
    return name.startswith(PASSING) and ("*" in name or field != "allowed_tools")

"""What follows for every tool if a place said this: the whole chain, with one layer replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agents.models import Agent
from tools_app.effective import EffectivePolicy
from tools_app.explanation import Explanation
from tools_app.layers import ORDER, binding_of_session, layers_of_agent
from tools_app.places import Place, find_place
from tools_app.policies import stored_policy
from tools_app.policy import Layer
from tools_app.policy_input import layer_of
from tools_app.registry import Tool
from tools_app.workspace_tools import tools_of_workspace

NAMES = {
    "workspace": "the workspace's ceiling",
    "agent": "the agent",
    "environment": "the environment",
    "session": "the session",
    "subagent": "the parent session",
    "default": "the default",
}
VERBS = {"allow": "Allowed", "ask": "Asks first", "deny": "Denied"}


@dataclass(frozen=True, kw_only=True)
class Change:
    """A tool that would be treated in another way."""

    tool: str
    was: str
    becomes: str


def layers_around(place: Place) -> tuple[Layer, ...]:
    """Everything that binds this place as it is stored now."""
    match place.layer:
        case "agent":
            agent = Agent.objects.select_related("current").get(pk=place.subject_id)
            return layers_of_agent(agent.current) if agent.current else ()
        case "session":
            bound = binding_of_session(place.subject_id)
            return bound.layers if bound else ()
        case "environment":
            ceiling = find_place(place.workspace_id, "workspace")
            return (
                layer_of("workspace", stored_policy(ceiling)),
                layer_of("environment", stored_policy(place)),
            )
        case _:
            return (layer_of("workspace", stored_policy(place)),)


def effective(place: Place, words: Mapping[str, Any]) -> EffectivePolicy:
    """What would count if the place said these words."""
    own = layer_of(place.layer, words)
    return EffectivePolicy.of(
        _with(layers_around(place), own), tools_of_workspace(place.workspace_id)
    )


def _with(layers: Sequence[Layer], own: Layer) -> tuple[Layer, ...]:
    """The chain with one layer replaced; a sub-agent goes on being bound by its parent."""
    by_name = {layer.name: layer for layer in layers}
    before = by_name.get(own.name)
    if before and before.parent:
        own = Layer(**{**own.__dict__, "parent": before.parent})
    by_name[own.name] = own
    return tuple(by_name[name] for name in ORDER if name in by_name)


def sentence(said: Explanation) -> str:
    """The decision and why, as a person would say it."""
    if not said.chain:
        return f"{VERBS[said.decision]}: {said.rule}."
    if said.layer == "default":
        return f"{VERBS[said.decision]} by default."
    who = NAMES.get(said.layer, said.layer)
    # The verb of a rule is said already.
    rule = said.rule.removeprefix("allowed ").removeprefix("denied ").removeprefix("asked ")
    return f"{VERBS[said.decision]}{',' if said.decision == 'ask' else ''} by {who}: {rule}."


def differences(before: EffectivePolicy, after: EffectivePolicy) -> list[Change]:
    """The tools for which the change matters."""
    return [
        Change(tool=name, was=before[name].decision, becomes=after[name].decision)
        for name in sorted(after)
        if name in before and before[name].decision != after[name].decision
    ]


def told(tool: Tool) -> str:
    """What a tool does, in its first line."""
    return tool.description.strip().partition("\n")[0]

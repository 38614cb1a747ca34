"""The tools by which the builder changes the draft of the agent that its session is about."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from agents import canvas, drafts
from agents.agent_input import Fallback
from agents.canvas import Drawn
from agents.models_catalog import known_models
from agents.provider_keys import statuses
from agents.undoing import open_changes
from sessions_app.building.acting import Desk, desk_of
from tools_app.policy import Verdict
from tools_app.policy_input import LISTS
from tools_app.proposals import propose_rules, words_now
from tools_app.publishing import publish
from tools_app.registry import Arguments, Category, Effect, ToolContext, tool
from tools_app.tools.canvas import change_canvas
from tools_app.workspace_tools import tools_of_workspace

STEP = 220
RULES = "Tools, groups and patterns: read, group:web, exec(git status*)."
MOST = 100


class GetAgent(Arguments):
    pass


class UpdateAgent(Arguments):
    """Only what is named changes."""

    name: str | None = Field(default=None, max_length=80, description="Short, as people say it.")
    description: str | None = Field(
        default=None,
        max_length=10_000,
        description='What it is for, in a sentence; then lines that begin with "Try:".',
    )
    system_prompt: str | None = Field(default=None, description="All of its instructions.")
    provider: str | None = Field(default=None, max_length=20, description="gemini, openai or demo.")
    model: str | None = Field(default=None, max_length=120, description="As its provider names it.")
    temperature: float | None = Field(default=None, ge=0, le=2, description="0 is sober.")
    max_tokens: int | None = Field(default=None, ge=1, description="Of one answer.")
    environment: str | None = Field(default=None, max_length=80, description="Its name or id.")
    fallbacks: list[Fallback] | None = Field(
        default=None, max_length=5, description="Models to try when the first one fails."
    )
    limits: dict[str, int] | None = Field(
        default=None, description="max_model_calls, max_tool_calls, max_seconds, max_tokens_total."
    )


class SetPolicy(Arguments):
    """What happens when the agent calls a tool. What is not named stays as it is."""

    profile: str | None = Field(
        default=None, max_length=20, description="minimal, coding, messaging or full."
    )
    allow: list[str] = Field(default=[], max_length=MOST, description=RULES)
    ask: list[str] = Field(default=[], max_length=MOST, description="These ask a person first.")
    deny: list[str] = Field(default=[], max_length=MOST, description="These are refused.")


class AddStep(Arguments):
    name: str = Field(min_length=1, max_length=120, description="What people see on the step.")
    prompt: str = Field(min_length=1, max_length=20_000, description="What the agent does in it.")


class Publish(Arguments):
    pass


@tool(category=Category.BUILDER, read_only=True, seconds=30, title="Look at the agent")
def builder_get_agent(arguments: GetAgent, context: ToolContext) -> dict[str, Any]:
    """Look at the agent as its draft has it: fields, policy, canvas, tools, open changes."""
    with desk_of(context) as desk:
        drafted = drafts.read(desk.agent)
        drawn = canvas.read(desk.agent)
        tools = tools_of_workspace(desk.agent.workspace_id).values()
        usable = [name for name, one in statuses(desk.agent.workspace_id).items() if one.configured]
        return {
            **drafted.as_json(),
            "policy": words_now(drafted),
            "canvas": drawn.graph.model_dump(mode="json") | {"revision": drawn.revision},
            "open_changes": open_changes(desk.agent).count(),
            "tools": {one.name: one.category for one in tools if one.category != Category.BUILDER},
            "models": [f"{m.provider}: {m.name}" for m in known_models() if m.provider in usable],
        }


@tool(
    category=Category.BUILDER,
    effects=[Effect.AGENTS],
    idempotent=True,
    seconds=30,
    title="Change the agent",
)
def builder_update_agent(arguments: UpdateAgent, context: ToolContext) -> str:
    """Change fields of the agent's draft: name, description, system prompt, model and limits."""
    changes = arguments.model_dump(exclude_none=True)
    with desk_of(context) as desk:
        if "model" in changes and "provider" not in changes:
            changes |= _provider_of(str(changes["model"]))
        if not drafts.written_by(desk.agent, desk.author):
            drafts.change(desk.agent, changes, author=desk.author)
        named = ", ".join(sorted(changes)) or "nothing"
        return f"The draft has it: {named}. {_standing(desk)}"


@tool(
    category=Category.BUILDER,
    effects=[Effect.AGENTS],
    idempotent=True,
    seconds=30,
    title="Propose a policy",
)
def builder_set_policy(arguments: SetPolicy, context: ToolContext) -> str:
    """Propose what happens when the agent calls tools: allow, ask a person first, or deny."""
    rules: dict[Verdict, list[str]] = {
        "allow": arguments.allow,
        "ask": arguments.ask,
        "deny": arguments.deny,
    }
    with desk_of(context) as desk:
        if not drafts.written_by(desk.agent, desk.author):
            propose_rules(desk.agent, rules, profile=arguments.profile, author=desk.author)
        words = words_now(drafts.read(desk.agent))
        said = [f"{verdict} {', '.join(words[LISTS[verdict]])}" for verdict in LISTS]
        kept = "; ".join(one.replace("(*)", "") for one in said if not one.endswith(" "))
        return f"Proposed: profile {words['profile']}; {kept or 'no rules'}. {_standing(desk)}"


@tool(
    category=Category.BUILDER,
    effects=[Effect.CANVAS],
    idempotent=True,
    seconds=30,
    title="Add a step",
)
def builder_add_step(arguments: AddStep, context: ToolContext) -> str:
    """Add a step at the end of the agent's workflow, which begins with a trigger."""
    with desk_of(context):
        return change_canvas(context, lambda drawn: _with_step(drawn, arguments))


@tool(
    category=Category.BUILDER,
    permission="always_ask",
    effects=[Effect.AGENTS],
    seconds=60,
    title="Publish the agent",
)
def builder_publish(arguments: Publish, context: ToolContext) -> str:
    """Publish the draft as the agent's next version, with its policy and its canvas."""
    with desk_of(context) as desk:
        version = publish(desk.principal, desk.agent)
        return f"Published {version.name} as version {version.number}."


def _standing(desk: Desk) -> str:
    drafted = drafts.read(desk.agent)
    return f"{drafted.fields['name']} is at revision {drafted.row.revision}, not published yet."


def _provider_of(model: str) -> dict[str, str]:
    """The provider of a model that is known by its name alone."""
    found = next((one.provider for one in known_models() if one.name == model), None)
    return {"provider": found} if found else {}


def _with_step(drawn: Drawn, step: AddStep) -> dict[str, Any]:
    """The graph with the step after its last node, and a trigger before all of them."""
    shape = drawn.graph.model_dump(mode="json")
    nodes, edges = shape["nodes"], shape["edges"]
    if not nodes:
        nodes.append({"id": "start", "type": "trigger", "name": "Start"})
    sources = {edge["source"] for edge in edges}
    last = next((one for one in reversed(nodes) if one["id"] not in sources), nodes[-1])
    taken = {one["id"] for one in nodes}
    name = next(f"step_{n}" for n in range(1, len(nodes) + 2) if f"step_{n}" not in taken)
    place = last.get("position") or {"x": 0, "y": 0}
    config = {"prompt": step.prompt}
    nodes.append(
        {
            "id": name,
            "type": "agent",
            "name": step.name,
            "config": config,
            "position": {"x": place["x"] + STEP, "y": place["y"]},
        }
    )
    edges.append({"source": last["id"], "target": name})
    return shape

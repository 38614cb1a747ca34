"""Tools with which the builder changes the draft of its session's agent."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from pydantic import Field

from agents import drafts
from agents.canvas import revisions
from agents.canvas.revisions import CanvasState
from agents.definitions import Fallback
from agents.drafts import open_changes
from agents.model_catalog import known_models, listed_models, offered_models
from agents.providers.keys import statuses
from sessions_app.builder import BuilderContext, builder_context
from tools_app.builtin.canvas import change_canvas
from tools_app.policy.rules import Verdict
from tools_app.policy.storage import LISTS
from tools_app.publishing import draft_policy, propose_rules, publish
from tools_app.registry import Arguments, Category, Effect, ToolContext, tool
from tools_app.workspace_tools import tools_of_workspace

#: The distance between two steps on the canvas.
STEP_WIDTH = 220
#: Some servers list hundreds of models.
MOST_MODELS = 100
RULES_HELP = "Tools, groups and patterns: read, group:web, exec(git status*)."
MAX_RULES = 100


class GetAgent(Arguments):
    pass


class UpdateAgent(Arguments):
    """Fields that are left out stay unchanged."""

    name: str | None = Field(default=None, max_length=80, description="A short name.")
    description: str | None = Field(
        default=None,
        max_length=10_000,
        description='Its purpose in one sentence, then lines that begin with "Try:".',
    )
    system_prompt: str | None = Field(default=None, description="The complete instructions.")
    provider: str | None = Field(
        default=None, max_length=20, description="gemini, openai, anthropic or demo."
    )
    model: str | None = Field(
        default=None, max_length=120, description="The provider's name of it."
    )
    temperature: float | None = Field(default=None, ge=0, le=2, description="0 is least random.")
    max_tokens: int | None = Field(default=None, ge=1, description="The limit of one answer.")
    effort: str | None = Field(
        default=None, max_length=6, description="Thinking: off, low, medium or high; empty is auto."
    )
    environment: str | None = Field(default=None, max_length=80, description="Its name or id.")
    fallbacks: list[Fallback] | None = Field(
        default=None, max_length=5, description="Models to try when the first one fails."
    )
    limits: dict[str, int] | None = Field(
        default=None, description="max_model_calls, max_tool_calls, max_seconds, max_tokens_total."
    )


class SetPolicy(Arguments):
    """Which tool calls are allowed, asked about or denied. Tools left out stay unchanged."""

    profile: str | None = Field(
        default=None, max_length=20, description="minimal, coding, messaging or full."
    )
    allow: list[str] = Field(default=[], max_length=MAX_RULES, description=RULES_HELP)
    ask: list[str] = Field(default=[], max_length=MAX_RULES, description="Ask a person first.")
    deny: list[str] = Field(default=[], max_length=MAX_RULES, description="Refuse these calls.")


class AddStep(Arguments):
    name: str = Field(min_length=1, max_length=120, description="The label of the step.")
    prompt: str = Field(
        min_length=1, max_length=20_000, description="What the agent does in the step."
    )


class Publish(Arguments):
    pass


@tool(category=Category.BUILDER, read_only=True, seconds=30, title="Look at the agent")
def builder_get_agent(arguments: GetAgent, context: ToolContext) -> dict[str, Any]:
    """Read the agent's draft: fields, policy, canvas, tools and open changes."""
    with builder_context(context) as desk:
        drafted = drafts.read(desk.agent)
        drawn = revisions.read(desk.agent)
        tools = tools_of_workspace(desk.agent.workspace_id).values()
        keys = statuses(desk.agent.workspace_id)
        models = [
            f"{model.provider}: {model.name}"
            for status in keys.values()
            if status.configured
            for model in offered_models(
                desk.agent.workspace_id, status.provider, own_server=status.own_server
            )
        ]
        return {
            **drafted.as_json(),
            "policy": draft_policy(drafted),
            "canvas": drawn.graph.model_dump(mode="json") | {"revision": drawn.revision},
            "open_changes": open_changes(desk.agent).count(),
            "tools": {t.name: t.category for t in tools if t.category != Category.BUILDER},
            "models": models[:MOST_MODELS],
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
    with builder_context(context) as desk:
        if "model" in changes and "provider" not in changes:
            changes |= provider_of_model(desk.agent.workspace_id, str(changes["model"]))
        if not drafts.written_by(desk.agent, desk.author):
            drafts.change(desk.agent, changes, author=desk.author)
        changed = ", ".join(sorted(changes)) or "nothing"
        return f"Changed in the draft: {changed}. {_draft_state(desk)}"


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
    with builder_context(context) as desk:
        if not drafts.written_by(desk.agent, desk.author):
            propose_rules(desk.agent, rules, profile=arguments.profile, author=desk.author)
        words = draft_policy(drafts.read(desk.agent))
        lists = [f"{verdict} {', '.join(words[LISTS[verdict]])}" for verdict in LISTS]
        rules_now = "; ".join(text.replace("(*)", "") for text in lists if not text.endswith(" "))
        profile = f"profile {words['profile']}"
        return f"Proposed: {profile}; {rules_now or 'no rules'}. {_draft_state(desk)}"


@tool(
    category=Category.BUILDER,
    effects=[Effect.CANVAS],
    idempotent=True,
    seconds=30,
    title="Add a step",
)
def builder_add_step(arguments: AddStep, context: ToolContext) -> str:
    """Add a step at the end of the agent's workflow."""
    with builder_context(context):
        return change_canvas(context, lambda drawn: _with_step(drawn, arguments))


@tool(
    category=Category.BUILDER,
    permission="always_ask",
    effects=[Effect.AGENTS],
    seconds=60,
    title="Publish the agent",
)
def builder_publish(arguments: Publish, context: ToolContext) -> str:
    """Publish the draft, with its policy and canvas, as the agent's next version."""
    with builder_context(context) as desk:
        version = publish(desk.principal, desk.agent)
        return f"Published {version.name} as version {version.number}."


def _draft_state(desk: BuilderContext) -> str:
    drafted = drafts.read(desk.agent)
    return f"{drafted.fields['name']} is at revision {drafted.row.revision}, not published yet."


def provider_of_model(workspace_id: UUID, model: str) -> dict[str, str]:
    """Return the provider of a model that is known, or that a server of the workspace lists."""
    known = next((info.provider for info in known_models() if info.name == model), None)
    provider = known or listed_models(workspace_id).get(model)
    return {"provider": provider} if provider else {}


def _with_step(drawn: CanvasState, step: AddStep) -> dict[str, Any]:
    """Return the graph with the step after its last node, and with a trigger first."""
    shape = drawn.graph.model_dump(mode="json")
    nodes, edges = shape["nodes"], shape["edges"]
    if not nodes:
        nodes.append({"id": "start", "type": "trigger", "name": "Start"})
    sources = {edge["source"] for edge in edges}
    last = next((node for node in reversed(nodes) if node["id"] not in sources), nodes[-1])
    taken = {node["id"] for node in nodes}
    node_id = next(f"step_{n}" for n in range(1, len(nodes) + 2) if f"step_{n}" not in taken)
    position = last.get("position") or {"x": 0, "y": 0}
    nodes.append(
        {
            "id": node_id,
            "type": "agent",
            "name": step.name,
            "config": {"prompt": step.prompt},
            "position": {"x": position["x"] + STEP_WIDTH, "y": position["y"]},
        }
    )
    edges.append({"source": last["id"], "target": node_id})
    return shape

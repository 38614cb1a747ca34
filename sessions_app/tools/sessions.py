"""The tools by which agents work together: see sessions, write to them, give tasks to sub-agents."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Q
from pydantic import Field

from agents.definitions import version_by_id
from agents.environments import find_environment
from agents.limits import limits_of
from agents.models import Agent, Environment
from config.faults import NotFound, ToolFailed
from sessions_app import neighbours, spawns
from sessions_app.history import newest_history
from sessions_app.models import Session
from sessions_app.transcript import mentioning
from tools_app.context import Parked
from tools_app.registry import Arguments, Category, Effect, ToolContext, tool

MOST_LISTED = 50


class SessionsList(Arguments):
    query: str = Field(
        default="", max_length=200, description="Words of the title or of a message."
    )
    limit: int = Field(default=20, ge=1, le=MOST_LISTED, description="The most to list.")


class SessionsHistory(Arguments):
    session: str = Field(description="The id of the session, or its key.")
    limit: int = Field(default=20, ge=1, le=100, description="The newest so many messages.")


class SessionsSend(Arguments):
    session: str = Field(description="The id of the session, or its key.")
    message: str = Field(min_length=1, max_length=100_000, description="What to say there.")
    wait: bool = Field(default=True, description="Wait for the reply; it is the result.")
    timeout_seconds: int = Field(
        default=600, ge=1, le=86_400, description="How long to wait for the reply."
    )


class SessionsSpawn(Arguments):
    task: str = Field(
        min_length=1,
        max_length=100_000,
        description="Everything the sub-agent needs to know: it sees nothing of this conversation.",
    )
    agent: str = Field(default="", description="Another agent, by name or id. Else yourself.")
    title: str = Field(default="", max_length=80, description="A short name for the task.")
    environment: str = Field(default="", description="Another environment, by name.")
    budget_usd: float | None = Field(
        default=None, ge=0, le=1_000_000, description="The most it may cost."
    )
    wait: bool = Field(
        default=True,
        description="Wait for the result. Without, go on; you are told when it is done.",
    )


@tool(category=Category.SESSION, read_only=True, seconds=30, title="List sessions")
def sessions_list(arguments: SessionsList, context: ToolContext) -> list[dict[str, Any]]:
    """List the sessions you can see: your own others, and those above and below this one."""
    found = neighbours.visible(context)
    if arguments.query:
        found = mentioning(found, arguments.query)
    return [_shown(session) for session in found.order_by("-active_at")[: arguments.limit]]


def _shown(session: Session) -> dict[str, Any]:
    return {
        "id": str(session.pk),
        "key": session.session_key,
        "title": session.title,
        "status": session.status,
        "parent": str(session.parent_id) if session.parent_id else None,
        "last_activity": session.active_at.isoformat(timespec="seconds"),
    }


@tool(category=Category.SESSION, read_only=True, seconds=30, title="Read a session")
def sessions_history(arguments: SessionsHistory, context: ToolContext) -> str:
    """Read what was said in another session that you can see."""
    session = neighbours.find(context, arguments.session)
    said = newest_history(session, limit=arguments.limit)
    lines = [f"{one.role}: {one.text}" for one in said]
    return "\n\n".join(lines) or "Nothing was said there yet."


@tool(
    category=Category.SESSION,
    idempotent=True,
    effects=[Effect.SESSIONS],
    seconds=30,
    title="Write to a session",
)
def sessions_send(arguments: SessionsSend, context: ToolContext) -> str | Parked:
    """Send a message to another session that you can see, and wait for its reply unless told not to."""
    target = neighbours.find(context, arguments.session)
    waiting = neighbours.send(
        context,
        target,
        arguments.message,
        waits=arguments.wait,
        seconds=arguments.timeout_seconds,
    )
    return Parked() if waiting else f"Sent to {target.title or target.pk}."


@tool(
    category=Category.SESSION,
    idempotent=True,
    effects=[Effect.SESSIONS],
    seconds=60,
    title="Start a sub-agent",
)
def sessions_spawn(arguments: SessionsSpawn, context: ToolContext) -> dict[str, Any] | Parked:
    """Give a task to a sub-agent in a session of its own. Several in one step work at the same time.

    It has at most the tools that you have, and spends from your budget.
    """
    parent = Session.objects.select_related("agent").get(pk=context.session_id)
    task = spawns.Task(
        text=arguments.task,
        agent=_agent(context, arguments.agent) if arguments.agent else parent.agent,
        environment=_environment(context, arguments.environment),
        title=arguments.title,
        budget=None if arguments.budget_usd is None else Decimal(str(arguments.budget_usd)),
        waits=arguments.wait,
    )
    made = spawns.spawn(context, task, limits_of(version_by_id(parent.agent_version_id)))
    if made.waits:
        return Parked()
    return {"session_id": str(made.child_session_id), "status": "started"}


def _agent(context: ToolContext, named: str) -> Agent:
    try:
        wanted = Q(pk=UUID(named))
    except ValueError:
        wanted = Q(current__name__iexact=named)
    agents = Agent.objects.for_workspace(context.workspace_id).offered()
    found = agents.filter(wanted).order_by("created_at").first()
    if found is None:
        raise ToolFailed(f"There is no agent named {named!r} here.")
    return found


def _environment(context: ToolContext, named: str) -> Environment | None:
    if not named:
        return None
    try:
        return find_environment(context.workspace_id, named)
    except NotFound:
        raise ToolFailed(f"There is no environment named {named!r} here.") from None

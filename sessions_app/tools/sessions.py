"""Tools with which agents work together: list, read and message sessions, and start sub-agents."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

from django.contrib.postgres.search import SearchQuery, SearchRank
from django.db.models import Max, Q
from pydantic import Field

from agents.definitions import version_by_id
from agents.environments import find_environment
from agents.limits import limits_of
from agents.models import Agent, Environment
from core.exceptions import NotFound
from memory.ranking import split_words
from memory.recall import make_excerpt
from sessions_app.log import transcript
from sessions_app.meaning import similar_messages
from sessions_app.models import Session, SessionEvent
from sessions_app.search import TEXT_VECTOR, find_matches
from sessions_app.subagents import peer_sessions, spawns
from tools_app.exceptions import ToolFailed
from tools_app.outflow import nothing, of_peer_message
from tools_app.registry import Arguments, Category, Effect, Parked, ToolContext, tool

MAX_LISTED = 50
MAX_FOUND, MAX_WORDS = 20, 64
#: Extra rows to read in a search, because some messages were withdrawn or still wait.
EXTRA_ROWS = 5


class SessionsList(Arguments):
    query: str = Field(
        default="", max_length=200, description="Words in the title or in a message."
    )
    limit: int = Field(default=20, ge=1, le=MAX_LISTED, description="The maximum to list.")


class SessionsHistory(Arguments):
    session: str = Field(description="The session's id, or the key of one of yours.")
    limit: int = Field(default=20, ge=1, le=100, description="The number of messages.")


class SessionsSend(Arguments):
    session: str = Field(description="The session's id, or the key of one of yours.")
    message: str = Field(min_length=1, max_length=100_000, description="The message to send.")
    wait: bool = Field(default=True, description="Wait for the reply, which is the result.")
    timeout_seconds: int = Field(
        default=600, ge=1, le=86_400, description="How long to wait for the reply."
    )


class SessionsSpawn(Arguments):
    task: str = Field(
        min_length=1,
        max_length=100_000,
        description="Everything the sub-agent needs to know. It cannot see this conversation.",
    )
    agent: str = Field(
        default="", description="The name or id of another agent. Default: yourself."
    )
    title: str = Field(default="", max_length=80, description="A short name for the task.")
    environment: str = Field(default="", description="The name of another environment.")
    budget_usd: float | None = Field(
        default=None, ge=0, le=1_000_000, description="The maximum cost."
    )
    wait: bool = Field(
        default=True,
        description="Wait for the result. If false, go on; you get a message when it is done.",
    )


@tool(category=Category.SESSION, read_only=True, seconds=30, title="List sessions")
def sessions_list(arguments: SessionsList, context: ToolContext) -> list[dict[str, Any]]:
    """List the sessions you can see: your others, those above and below this one, and those of peers."""
    rows = peer_sessions.visible_sessions(context, "list").latest_first()
    if arguments.query:
        found = find_matches(rows, arguments.query, limit=arguments.limit)
        rows = rows.filter(pk__in=list(found))
    shown = rows.select_related("agent_version")[: arguments.limit]
    return [_describe(session) for session in shown]


def _describe(session: Session) -> dict[str, Any]:
    return {
        "id": str(session.pk),
        "agent": session.agent_version.name,
        "key": session.session_key,
        "title": session.title,
        "status": session.status,
        "parent": str(session.parent_id) if session.parent_id else None,
        "last_activity": session.active_at.isoformat(timespec="seconds"),
    }


@tool(category=Category.SESSION, read_only=True, seconds=30, title="Read a session")
def sessions_history(arguments: SessionsHistory, context: ToolContext) -> str:
    """Read the newest messages of another session that you can see."""
    session = peer_sessions.find_visible_session(context, arguments.session, "read")
    messages = transcript.newest_history(session, limit=arguments.limit)
    lines = [f"{message.role}: {message.text}" for message in messages]
    return "\n\n".join(lines) or "This session has no messages yet."


@tool(
    category=Category.SESSION,
    idempotent=True,
    effects=[Effect.SESSIONS],
    outflow=of_peer_message,
    seconds=30,
    title="Write to a session",
)
def sessions_send(arguments: SessionsSend, context: ToolContext) -> str | Parked:
    """Send a message to another session that you can see and, by default, wait for its reply."""
    target = peer_sessions.find_visible_session(context, arguments.session, "send")
    waiting = peer_sessions.send_message(
        context, target, arguments.message, waits=arguments.wait, seconds=arguments.timeout_seconds
    )
    return Parked() if waiting else f"Sent to {target.title or target.pk}."


@tool(
    category=Category.SESSION,
    idempotent=True,
    effects=[Effect.SESSIONS],
    # The sub-agent shares what this session has read, and asks for itself.
    outflow=nothing,
    seconds=60,
    title="Start a sub-agent",
)
def sessions_spawn(arguments: SessionsSpawn, context: ToolContext) -> dict[str, Any] | Parked:
    """Start a sub-agent with a task in its own session. Several in one step work in parallel.

    A sub-agent has at most your tools and spends from your budget.
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
    spawned = spawns.spawn(context, task, limits_of(version_by_id(parent.agent_version_id)))
    if spawned.waits:
        return Parked()
    return {"session_id": str(spawned.child_session_id), "status": "started"}


def _agent(context: ToolContext, name: str) -> Agent:
    try:
        query = Q(pk=UUID(name))
    except ValueError:
        query = Q(current__name__iexact=name)
    agents = Agent.objects.for_workspace(context.workspace_id).offered()
    agent = agents.filter(query).order_by("created_at").first()
    if agent is None:
        raise ToolFailed(f"There is no agent named {name!r} in this workspace.")
    return agent


def _environment(context: ToolContext, name: str) -> Environment | None:
    if not name:
        return None
    try:
        return find_environment(context.workspace_id, name)
    except NotFound:
        raise ToolFailed(f"There is no environment named {name!r} in this workspace.") from None


class ConversationSearch(Arguments):
    query: str = Field(
        min_length=1, max_length=2_000, description="A question, or a few words of a message."
    )
    limit: int = Field(default=5, ge=1, le=MAX_FOUND, description="The maximum number of messages.")


@tool(category=Category.MEMORY, read_only=True, seconds=30, title="Search this conversation")
def conversation_search(arguments: ConversationSearch, context: ToolContext) -> str:
    """Search earlier messages of this conversation, including those you no longer see.

    Messages are found by their words and by their meaning.
    """
    session = Session.objects.get(pk=context.session_id)
    events = _matching(session, arguments.query, arguments.limit + EXTRA_ROWS)
    messages = transcript.messages_seen_by_agent(session, events)[: arguments.limit]
    excerpts = [_excerpt(message, arguments.query) for message in messages]
    return "\n\n".join(excerpts) or f"No earlier message mentions {arguments.query!r}."


def _matching(session: Session, query: str, limit: int) -> list[SessionEvent]:
    """Return the best matches among the messages before the one that is being answered.

    The rank by words and the similarity count the same, each relative to the best.
    """
    messages = session.events.filter(
        type=SessionEvent.Type.USER_MESSAGE, processed_at__isnull=False
    )
    current = messages.aggregate(seq=Max("seq"))["seq"] or 0
    words = " or ".join(split_words(query.replace("\x00", " "))[:MAX_WORDS])
    search = SearchQuery(words, search_type="websearch", config="english")
    earlier = session.events.filter(type__in=transcript.MESSAGE_TYPES, seq__lt=current).annotate(
        words=TEXT_VECTOR
    )
    ranked = earlier.filter(words=search).annotate(
        rank=SearchRank(TEXT_VECTOR, search, normalization=1)
    )
    by_words = dict(ranked.order_by("-rank", "-seq").values_list("seq", "rank")[: limit * 2])
    by_meaning = similar_messages(session, query, before=current, most=limit * 2)
    score: dict[int, float] = {}
    for found in (by_words, by_meaning):
        best = max(found.values(), default=0) or 1
        for seq, value in found.items():
            score[seq] = score.get(seq, 0.0) + value / best
    order = sorted(score, key=lambda seq: (-score[seq], -seq))[:limit]
    events = {event.seq: event for event in session.events.filter(seq__in=order)}
    return [events[seq] for seq in order]


def _excerpt(message: transcript.TranscriptMessage, query: str) -> str:
    author = "person" if message.role == "user" else "you"
    time = f"{message.created_at:%Y-%m-%d %H:%M} UTC"
    return f"#{message.seq} {author}, {time}\n{make_excerpt(message.text, query)}"

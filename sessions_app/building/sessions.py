"""The sessions of builder mode: the talk with the builder, and previews of the draft."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.db import transaction

from agents import drafts
from agents.definitions import current_version
from agents.models import Agent, AgentVersion
from agents.previews import create_draft_agent, preview_version
from config.faults import NotFound
from sessions_app.building.builder import builder_of
from sessions_app.doors import accept_event
from sessions_app.models import Session, SessionEvent
from sessions_app.sessions import get_or_create_session
from tenants.access import Principal, authorise
from tools_app.places import Place
from tools_app.policies import save_policy

NEW_AGENT = "New agent"


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A message that the builder was sent."""

    agent: Agent
    session_id: UUID
    run_id: UUID | None


def find_built(principal: Principal, agent_id: UUID, verb: str = "read") -> Agent:
    """An agent that people build, draft or not, if this identity may do that with it."""
    workspace_id = authorise(principal, verb)  # type: ignore[arg-type]
    rows = Agent.objects.for_workspace(workspace_id).known().select_related("current")
    agent = rows.filter(pk=agent_id, archived_at=None).first()
    if agent is None:
        raise NotFound
    return agent


def begin_agent(principal: Principal, name: str = NEW_AGENT) -> Agent:
    """A new agent that is only a draft."""
    workspace_id = authorise(principal, "build")
    return create_draft_agent(
        workspace_id=workspace_id, fields={"name": name}, created_by=principal.user
    )


@transaction.atomic
def ask_builder(
    principal: Principal, message: str, agent: Agent | None = None, *, dedupe_key: str | None = None
) -> Asked:
    """Send the builder a message about an agent, or about a new one."""
    authorise(principal, "build")
    subject = agent or begin_agent(principal)
    session = builder_session(principal, subject)
    admitted = accept_event(
        principal,
        session.pk,
        type=SessionEvent.Type.USER_MESSAGE,
        payload={"text": message},
        dedupe_key=dedupe_key,
    )
    return Asked(agent=subject, session_id=session.pk, run_id=admitted.run_id)


def builder_session(principal: Principal, agent: Agent) -> Session:
    """The one talk with the builder about this agent, on the builder's newest version."""
    builder = builder_of(agent.workspace_id)
    session, _ = get_or_create_session(
        agent=builder,
        session_key=f"builds:{agent.pk}",
        title=f"Building {agent}"[:200],
        created_by_id=principal.user_id,
        about=agent,
    )
    _use(session, current_version(builder))
    return session


def _use(session: Session, version: AgentVersion) -> None:
    """Run this version from the next run on."""
    if session.agent_version_id != version.pk:
        session.agent_version = version
        session.save(update_fields=["agent_version"])


@transaction.atomic
def preview_session(principal: Principal, agent: Agent, *, fresh: bool = False) -> Session:
    """A session that runs the draft as it is now.

    It is bound by the agent's policy as published, narrowed by what the draft proposes: a preview
    never lets a tool act that nobody with the right has let act.
    """
    authorise(principal, "build", agent)
    drafted = drafts.hold(agent)
    version = preview_version(agent, drafted.fields, drafted.row.revision)
    key = f"preview:{principal.user_id or principal.name}"
    if fresh:
        Session.objects.filter(agent=agent, session_key=key).update(session_key=None)
    session, _ = get_or_create_session(
        agent=agent,
        session_key=key,
        title=f"Preview of {version.name}"[:200],
        metadata={"preview": True},
        created_by_id=principal.user_id,
        version=version,
    )
    _use(session, version)
    place = Place(workspace_id=agent.workspace_id, layer="session", subject_id=session.pk)
    save_policy(place, drafted.row.policy or {}, by=principal.user)
    return session

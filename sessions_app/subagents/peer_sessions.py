"""The other sessions that an agent can see, and the messages it can send to them.

A session sees the sessions of the same agent and the same person, and those above and below it. The
agent's policy can name peers: other agents whose sessions of the same person it may list, read or
write to.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from sessions_app.exceptions import SessionEnded
from sessions_app.lanes import run_queue
from sessions_app.log.sql import row, rows
from sessions_app.models import Session, SubagentSpawn
from sessions_app.models.session import SessionQuerySet
from sessions_app.subagents.spawns import park_call, peer_message
from tenants.billing.spending import check_purses
from tools_app.exceptions import ToolFailed
from tools_app.policy.rules import PeerRight
from tools_app.registry import ToolContext

#: How long a chain of messages, each answering the one before, may be.
MAX_HOPS = 5
IN_WORDS: dict[PeerRight, str] = {"list": "see", "read": "read", "send": "write to"}
#: Locks in one order, or two sessions that write to each other would deadlock.
LOCK_BOTH = "SELECT id FROM agent_sessions WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"
#: Whether a session waits, directly or through others, for a reply of another.
WAITS_FOR = """
WITH RECURSIVE chain (id) AS (
  SELECT %s::uuid
  UNION SELECT w.child_session_id FROM subagent_spawns w JOIN chain c ON w.parent_session_id = c.id
   WHERE w.status = 'running' AND w.waits)
SELECT EXISTS (SELECT 1 FROM chain WHERE id = %s)
"""


def visible_sessions(context: ToolContext, right: PeerRight) -> SessionQuerySet:
    """Return every session that the calling one may list, read or send to, without itself."""
    own = Session.objects.only("ancestors", "created_by_id").get(pk=context.session_id)
    descendants = Q(parent__isnull=False, ancestors__contains=[own.pk])
    # What other people told the same agent is not for this person.
    person = Q(created_by_id=own.created_by_id) if own.created_by_id else Q(created_by=None)
    # A builder's session changes an agent, so only people talk to it.
    peers = Q(agent_id__in=context.peers(right), about=None)
    of_person = (Q(agent_id=context.agent_id) | peers) & person
    visible = Q(pk__in=own.ancestors) | descendants | of_person
    sessions = Session.objects.for_workspace(context.workspace_id)
    return sessions.filter(visible, archived_at=None).exclude(pk=own.pk)


def find_visible_session(context: ToolContext, named: str, right: PeerRight) -> Session:
    """Return a visible session by id, or one of the same agent by its key.

    A session that is not visible is reported as missing.
    """
    try:
        wanted = Q(pk=UUID(named))
    except ValueError:
        wanted = Q(session_key=named, agent_id=context.agent_id)
    found = visible_sessions(context, right).filter(wanted).first()
    if found is None:
        raise ToolFailed(f"There is no session {named!r} that you can {IN_WORDS[right]}.")
    return found


@transaction.atomic
def send_message(
    context: ToolContext, target: Session, text: str, *, waits: bool, seconds: float
) -> SubagentSpawn | None:
    """Send a message to another session. With `waits`, the reply becomes the result of this call."""
    rows(LOCK_BOTH, [[context.session_id, target.pk]])
    context.fence()
    event = peer_message(context, text, hops=1, dedupe_key=f"send:{context.call_id}")
    if event.payload["hops"] > MAX_HOPS:
        raise ToolFailed(
            f"These sessions have answered each other {MAX_HOPS} times in a row. A person has to "
            "write a message before they can go on."
        )
    check_purses(context.workspace_id, [target.agent_id, target.pk])
    if waits:
        _check_no_cycle(context, target)
    try:
        accepted = run_queue.accept(target.pk, event, author_id=context.user_id)
    except SessionEnded as fault:
        raise ToolFailed(fault.detail) from None
    if not waits:
        return None
    made, _ = SubagentSpawn.objects.get_or_create(
        parent_session_id=context.session_id,
        tool_use_id=context.call_id,
        defaults={
            "workspace_id": context.workspace_id,
            "kind": SubagentSpawn.Kind.SEND,
            "child_session": target,
            "parent_run_id": context.run_id,
            "child_run_id": accepted.run_id,
            "task": text,
            "expires_at": timezone.now() + timedelta(seconds=seconds),
            "created_by_id": context.user_id,
        },
    )
    park_call(context)
    return made


def _check_no_cycle(context: ToolContext, target: Session) -> None:
    """Raise ToolFailed if the target waits for this session, because both would wait forever."""
    rows("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"waits:{context.workspace_id}"])
    (cycle,) = row(WAITS_FOR, [target.pk, context.session_id])
    if cycle:
        raise ToolFailed(
            "That session waits for a reply from this one. Send without waiting, or answer first."
        )

"""Which sessions an agent can see from inside one of its own, and what it can say to them.

It sees the sessions of its own agent, and those above and below it; of the workspace alone.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import connection, transaction
from django.db.models import Q
from django.utils import timezone

from config.faults import SessionEnded, ToolFailed
from sessions_app import lanes
from sessions_app.models import Session, SubagentSpawn
from sessions_app.models.session import SessionQuerySet
from sessions_app.spawns import message_from, park
from sessions_app.statements import row, rows
from tenants.spending import check_purses
from tools_app.context import ToolContext

#: A message that answers a message that answers a message … goes this far.
MOST_HOPS = 5
FAMILY = """
WITH RECURSIVE above (id, up) AS (
  SELECT s.id, s.parent_id FROM agent_sessions s WHERE s.id = %(me)s
  UNION SELECT s.id, s.parent_id FROM agent_sessions s JOIN above a ON s.id = a.up),
below (id) AS (
  SELECT s.id FROM agent_sessions s WHERE s.parent_id = %(me)s
  UNION SELECT s.id FROM agent_sessions s JOIN below b ON s.parent_id = b.id)
SELECT id FROM above UNION SELECT id FROM below
"""
#: Always in one order: of two that write to each other at once, each would wait for the other's.
HOLD_BOTH = "SELECT id FROM agent_sessions WHERE id = ANY(%s) ORDER BY id FOR NO KEY UPDATE"
#: Who waits, directly or through others, for a reply of whom.
WAITS_FOR = """
WITH RECURSIVE chain (id) AS (
  SELECT %s::uuid
  UNION SELECT w.child_session_id FROM subagent_spawns w JOIN chain c ON w.parent_session_id = c.id
   WHERE w.status = 'running' AND w.waits)
SELECT EXISTS (SELECT 1 FROM chain WHERE id = %s)
"""


def visible(context: ToolContext) -> SessionQuerySet:
    """Every session that the calling one may know of, without itself."""
    with connection.cursor() as cursor:
        cursor.execute(FAMILY, {"me": context.session_id})
        family = [pk for (pk,) in cursor.fetchall()]
    mine = Q(agent_id=context.agent_id) | Q(pk__in=family)
    return (
        Session.objects.for_workspace(context.workspace_id)
        .filter(mine, archived_at=None)
        .exclude(pk=context.session_id)
    )


def find(context: ToolContext, named: str) -> Session:
    """By id, else by key. What may not be seen is as absent as what is not there."""
    try:
        wanted = Q(pk=UUID(named))
    except ValueError:
        wanted = Q(session_key=named, agent_id=context.agent_id)
    found = visible(context).filter(wanted).first()
    if found is None:
        raise ToolFailed(f"There is no session {named!r} that you can see.")
    return found


@transaction.atomic
def send(
    context: ToolContext, target: Session, text: str, *, waits: bool, seconds: float
) -> SubagentSpawn | None:
    """Put a message into another session; with `waits`, its reply becomes the result of this call."""
    rows(HOLD_BOTH, [[context.session_id, target.pk]])
    context.fence()
    event = message_from(context, text, hops=1, dedupe_key=f"send:{context.call_id}")
    if event.payload["hops"] > MOST_HOPS:
        raise ToolFailed(
            f"These sessions have answered each other {MOST_HOPS} times in a row. It ends here: "
            "a person has to say something first."
        )
    check_purses(context.workspace_id, [target.agent_id, target.pk])
    if waits:
        _check_no_circle(context, target)
    try:
        accepted = lanes.accept(target.pk, event, author_id=context.user_id)
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
    park(context)
    return made


def _check_no_circle(context: ToolContext, target: Session) -> None:
    """Two that wait for each other would wait for ever. One at a time may begin to wait."""
    rows("SELECT pg_advisory_xact_lock(hashtext(%s))", [f"waits:{context.workspace_id}"])
    (circle,) = row(WAITS_FOR, [target.pk, context.session_id])
    if circle:
        raise ToolFailed(
            "That session waits for a reply of this one. Send without waiting, or answer first."
        )

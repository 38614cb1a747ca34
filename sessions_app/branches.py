"""Branches of a chat: what came of editing a message, or of asking for another answer.

A log is never rewritten, so a branch is a session of its own that shares the log up to an event. Its
chat shows one branch at a time, at the place where it parts from the others, and the list of chats
has one row for all of them. See docs/decisions/0019-branches.md.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from django.db import transaction

from core.exceptions import Conflict
from sessions_app.exceptions import SessionEnded
from sessions_app.models import ResourceAttachment, Session
from sessions_app.resources.files import copy_files
from sessions_app.sessions import fork

#: A chat has at most so many branches: each page compares all of them.
MOST_BRANCHES = 50
#: Columns of a resource that a branch starts with. A worker prepares it again.
RESOURCE_COLUMNS = ("workspace_id", "kind", "source_ref", "mount_path", "access", "created_by_id")


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One of several ways in which a chat goes on after an event, numbered by age."""

    number: int
    count: int
    #: The sessions that show the variants before and after it.
    previous: UUID | None
    next: UUID | None


def may_branch(session: Session) -> bool:
    """Return whether a session can have branches. Builders and sub-agents have one log only."""
    return session.about_id is None and session.parent_id is None


@transaction.atomic
def branch(session: Session, at_seq: int) -> Session:
    """Create a branch that shares the log up to an event, with the same files, and show it.

    It belongs to the same person as its chat, with the same title, folder and pin.
    """
    # Branches of one chat are made one after the other, so that exactly one is shown.
    root = Session.objects.select_for_update().get(pk=session.branch_root_id or session.pk)
    if session.archived_at or root.archived_at:
        raise SessionEnded
    if not may_branch(session):
        raise Conflict("Only chats can have branches. Fork the session instead.")
    if Session.objects.branches(root).count() >= MOST_BRANCHES:
        raise Conflict(f"A chat can have at most {MOST_BRANCHES} branches. Fork it instead.")
    made = fork(session, at_seq, session.created_by_id)
    copy_files(session, made)
    ResourceAttachment.objects.bulk_create(
        ResourceAttachment(session=made, **row)
        for row in session.resources.values(*RESOURCE_COLUMNS)
    )
    Session.objects.filter(pk=root.pk).update(branch_root=root)
    shared = Session.objects.values("title", "folder", "pinned_at", "metadata").get(pk=session.pk)
    Session.objects.filter(pk=made.pk).update(
        branch_root=root, branch_of=session.pk, branch_seq=at_seq, **shared
    )
    show(made.pk, root.pk)
    made.refresh_from_db()
    return made


@transaction.atomic
def show_branch(session: Session) -> None:
    """Let the list of chats lead to this branch."""
    if session.branch_root_id:
        Session.objects.select_for_update().get(pk=session.branch_root_id)
        show(session.pk, session.branch_root_id)


def show(session_id: UUID, root_id: UUID) -> None:
    branches = Session.objects.filter(branch_root_id=root_id)
    branches.exclude(pk=session_id).update(is_shown=False)
    branches.filter(pk=session_id).update(is_shown=True)


# ── Where the branches of a chat part ────────────────────────────────────────────────────────────

#: For each session that a branch comes from, itself included, the last event that they share.
Lineage: TypeAlias = dict[UUID, int]
ENDLESS = 1 << 62


def variants_of(session: Session) -> dict[int, Variant]:
    """Return the variant that a session shows after each event at which its chat parts.

    A chat without branches costs no query.
    """
    if session.branch_root_id is None:
        return {}
    rows = list(
        Session.objects.branches(session)
        .order_by("pk")
        .only("branch_of", "branch_seq", "active_at")
    )
    lineages = {row.pk: _lineage(row, {one.pk: one for one in rows}) for row in rows}
    own = lineages.get(session.pk)
    if own is None:
        return {}
    points: defaultdict[int, list[Session]] = defaultdict(list)
    for row in rows:
        points[shared_seq(own, lineages[row.pk])].append(row)
    return {
        point: _variant(session.pk, rows, lineages, point) for point in points if point != ENDLESS
    }


def _lineage(row: Session, rows: dict[UUID, Session]) -> Lineage:
    lineage, shared = {row.pk: ENDLESS}, ENDLESS
    while row.branch_of in rows:
        shared = min(shared, row.branch_seq)
        row = rows[row.branch_of]
        lineage[row.pk] = shared
    return lineage


def shared_seq(one: Lineage, other: Lineage) -> int:
    """Return the last event that two branches share."""
    return max((min(one[pk], other[pk]) for pk in one.keys() & other.keys()), default=0)


def _variant(
    session_id: UUID, rows: list[Session], lineages: dict[UUID, Lineage], point: int
) -> Variant:
    """Group the branches that reach an event by how they go on, oldest first."""
    groups: list[list[Session]] = []
    for row in rows:
        lineage = lineages[row.pk]
        if shared_seq(lineage, lineages[session_id]) < point:
            continue
        known = (one for one in groups if shared_seq(lineage, lineages[one[0].pk]) > point)
        if group := next(known, None):
            group.append(row)
        else:
            groups.append([row])
    at = next(n for n, group in enumerate(groups) if any(row.pk == session_id for row in group))
    return Variant(
        number=at + 1,
        count=len(groups),
        previous=_newest(groups[at - 1]) if at else None,
        next=_newest(groups[at + 1]) if at + 1 < len(groups) else None,
    )


def _newest(group: list[Session]) -> UUID:
    return max(group, key=lambda row: row.active_at).pk

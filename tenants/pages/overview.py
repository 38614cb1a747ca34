"""What goes on in a workspace, as Home shows it. Apps of later layers add their parts to `PARTS`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.urls import reverse

from tenants.access import Principal
from tenants.inbox import items_of

#: Lines of a part that a glance takes in.
SHOWN = 3


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that happened or waits."""

    title: str
    url: str
    at: datetime
    lamp: str = ""
    status: str = ""
    #: Whose it is.
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some lines under a heading, with the way to all of them."""

    title: str
    url: str
    more: str
    lines: list[Line]
    #: How many there are, where that matters; else 0.
    count: int = 0
    #: Smaller stands higher.
    rank: int = field(compare=False)


#: Each says None when it has nothing to show.
PARTS: list[Callable[[Principal, UUID], Part | None]] = []


def parts_of(principal: Principal, workspace_id: UUID) -> list[Part]:
    """What waits for this person first, then what happened last."""
    found = [part for look in PARTS if (part := look(principal, workspace_id))]
    return sorted(found, key=lambda part: part.rank)


def unread(principal: Principal, workspace_id: UUID) -> Part | None:
    """What nobody has shown this person yet. A question of an agent stands among what waits."""
    items = items_of(principal).filter(is_read=False).exclude(kind="approval")
    lines = [
        Line(
            title=item.title,
            url=reverse("inbox_item", args=[item.pk]),
            at=item.created_at,
            lamp="is-failed" if item.kind == "warning" else "",
            status=item.get_kind_display(),
        )
        for item in items.order_by("-created_at", "-pk")[:SHOWN]
    ]
    if not lines:
        return None
    return Part(title="Unread", url=reverse("inbox"), more="Inbox", lines=lines, rank=2)


PARTS.append(unread)

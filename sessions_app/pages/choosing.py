"""The sessions that a form offers: the newest, and the one that is already chosen."""

from __future__ import annotations

from contextlib import suppress
from uuid import UUID

from sessions_app.models import Session

NEWEST = 30


def sessions_to_choose(workspace_id: UUID, chosen: str = "") -> list[Session]:
    """`chosen` is a form's value, as in `session:ID`."""
    rows = Session.objects.for_workspace(workspace_id).active().select_related("agent__current")
    found = list(rows.order_by("-active_at")[:NEWEST])
    kind, _, wanted = chosen.partition(":")
    if kind == "session":
        with suppress(ValueError):
            known = {one.pk for one in found}
            found += [one for one in rows.filter(pk=UUID(wanted)) if one.pk not in known]
    return found

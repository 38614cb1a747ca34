"""Reads what clients send to memory's doors."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import StringConstraints
from rest_framework.request import Request

from agents.api.body import fields_in
from agents.definitions import find_agent
from agents.inputs import STORABLE, Input, read_input, wrong_field
from config.faults import Invalid, NotFound
from memory.api.serializers import EntrySerializer
from memory.models import MemoryEntry
from memory.owner import Owner, owner_within
from memory.reader import Reader
from memory.writing import Marks
from tenants.access import Principal, authorise

Path = Annotated[str, StringConstraints(min_length=1, max_length=400), STORABLE]
Hash = Annotated[str, StringConstraints(max_length=64), STORABLE]


class MarksInput(Input):
    pinned: bool | None = None
    never_recall: bool | None = None
    trust: Literal["trusted", "untrusted"] | None = None
    expected_hash: Hash | None = None

    @property
    def marks(self) -> Marks:
        return Marks(
            pinned=self.pinned,
            never_recall=self.never_recall,
            trust=MemoryEntry.Trust(self.trust) if self.trust else None,
        )


class NewEntry(MarksInput):
    path: Path
    content: str
    scope: Literal["workspace", "agent", "user", "session"] | None = None
    agent: str | None = None
    session: UUID | None = None


class EntryChange(MarksInput):
    path: Path | None = None
    content: str | None = None
    scope: Literal["workspace", "agent", "user", "session"] | None = None
    agent: str | None = None
    session: UUID | None = None


class EntryReplacement(EntryChange):
    content: str


def new_entry(request: Request) -> NewEntry:
    return read_input(NewEntry, fields_in(request, EntrySerializer))


def entry_change(request: Request, entry: MemoryEntry, *, replace: bool) -> EntryChange:
    """What to change. A document stays whose it is; saying so again is no change."""
    shape = EntryReplacement if replace else EntryChange
    given = read_input(shape, fields_in(request, EntrySerializer))
    if given.scope not in (None, entry.scope):
        raise wrong_field("scope", "A document stays whose it is. Write another one.")
    for name, now in (("agent", entry.agent_id), ("session", entry.session_id)):
        said = getattr(given, name)
        if said is not None and str(said) != str(now):
            raise wrong_field(name, "A document stays whose it is. Write another one.")
    return given


def everything(principal: Principal) -> Reader:
    """What a person who looks after the workspace may see."""
    return Reader(
        workspace_id=authorise(principal, "read"),
        user_id=principal.user_id,
        whole_workspace=True,
    )


def reader_for(principal: Principal, *, agent: str | None, session: str | None) -> Reader:
    """The eyes of an agent, of a session, or of the caller."""
    workspace_id = authorise(principal, "read")
    user_id = principal.user_id
    if not agent and not session:
        return everything(principal)
    agent_id = find_agent(workspace_id, agent).pk if agent else None
    session_id = None
    if session:
        session_id, agent_of_session = find_session(workspace_id, session)
        agent_id = agent_id or agent_of_session
    return Reader(
        workspace_id=workspace_id, agent_id=agent_id, user_id=user_id, session_id=session_id
    )


def owner_for(principal: Principal, given: NewEntry) -> Owner:
    """Whose a new document is, out of what the body names."""
    scope = given.scope or ("session" if given.session else "agent" if given.agent else "workspace")
    if scope in ("agent", "session") and not getattr(given, scope):
        raise wrong_field(scope, f"A document of the scope {scope} needs it.")
    try:
        reader = reader_for(
            principal, agent=given.agent, session=str(given.session) if given.session else None
        )
    except NotFound as fault:
        raise wrong_field("agent" if given.agent else "session", fault.detail) from None
    return owner_within(reader, scope)


def find_session(workspace_id: UUID, ref: str) -> tuple[UUID, UUID]:
    """A session's id and its agent's. Sessions are to the right of this app, so by the relation."""
    sessions = MemoryEntry._meta.get_field("session").related_model._default_manager
    try:
        owned = sessions.filter(workspace_id=workspace_id, pk=UUID(ref))
        found = owned.values_list("pk", "agent_id").first()
    except ValueError:
        raise Invalid("session is a session's id.") from None
    if found is None:
        raise NotFound("There is no such session here.")
    return found

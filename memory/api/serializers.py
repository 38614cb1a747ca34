"""The serializers of memory, and the readers and owners that requests name."""

from __future__ import annotations

from uuid import UUID

from rest_framework import serializers
from rest_framework.request import Request

from agents.api.base import writable_fields
from agents.definitions import find_agent
from core.exceptions import Invalid, NotFound
from core.validation import read_input, wrong_field
from memory.documents import DocumentChange, DocumentInput
from memory.models import MemoryEntry, MemoryVersion
from memory.ownership import Owner, Reader, owner_within
from sessions_app.models import Session
from tenants.access import Principal, authorise


class MemoryVersionSerializer(serializers.Serializer):
    """One version of a document, and where it came from."""

    id = serializers.UUIDField(read_only=True)
    version = serializers.IntegerField(source="number", read_only=True)
    content = serializers.CharField(read_only=True, help_text="Empty when it was redacted.")
    hash = serializers.CharField(read_only=True)
    bytes = serializers.IntegerField(read_only=True)
    trust = serializers.ChoiceField(choices=MemoryEntry.Trust.choices, read_only=True)
    author = serializers.ChoiceField(choices=MemoryVersion.Author.choices, read_only=True)
    tool = serializers.CharField(read_only=True)
    session_id = serializers.UUIDField(read_only=True, allow_null=True)
    run_id = serializers.UUIDField(read_only=True, allow_null=True)
    call_id = serializers.CharField(read_only=True)
    event_id = serializers.UUIDField(read_only=True, allow_null=True)
    redacted_at = serializers.DateTimeField(read_only=True, allow_null=True)
    redacted_by = serializers.UUIDField(source="redacted_by_id", read_only=True, allow_null=True)
    created_by = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)


class ProvenanceSerializer(serializers.Serializer):
    """The author of the newest text, and where it was written."""

    author = serializers.ChoiceField(choices=MemoryVersion.Author.choices, read_only=True)
    user = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    tool = serializers.CharField(read_only=True)
    session_id = serializers.UUIDField(read_only=True, allow_null=True)
    run_id = serializers.UUIDField(read_only=True, allow_null=True)
    call_id = serializers.CharField(read_only=True)
    event_id = serializers.UUIDField(read_only=True, allow_null=True)


class EntrySerializer(serializers.Serializer):
    """A memory document with its newest text."""

    id = serializers.UUIDField(read_only=True)
    path = serializers.CharField(max_length=400, help_text="Such as `learnings/deploying.md`.")
    content = serializers.CharField(
        source="current.content",
        allow_blank=True,
        trim_whitespace=False,
        help_text="Markdown, at most 100,000 bytes.",
    )
    scope = serializers.ChoiceField(
        choices=MemoryEntry.Scope.choices,
        required=False,
        help_text="Who owns it. By default `session` or `agent` if given, else the workspace.",
    )
    agent = serializers.CharField(
        source="agent_id", required=False, allow_null=True, help_text="For the scope `agent`."
    )
    user = serializers.UUIDField(
        source="user_id", read_only=True, allow_null=True, help_text="For the scope `user`: you."
    )
    session = serializers.UUIDField(
        source="session_id", required=False, allow_null=True, help_text="For the scope `session`."
    )
    pinned = serializers.BooleanField(required=False)
    never_recall = serializers.BooleanField(
        required=False, help_text="Keep the document, but hide it from searches."
    )
    trust = serializers.ChoiceField(choices=MemoryEntry.Trust.choices, required=False)
    hash = serializers.CharField(read_only=True, help_text="SHA-256 of the text, in hexadecimal.")
    version = serializers.IntegerField(source="current.number", read_only=True)
    bytes = serializers.IntegerField(source="current.bytes", read_only=True)
    provenance = ProvenanceSerializer(source="current", read_only=True)
    created_by = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)
    updated_at = serializers.DateTimeField(read_only=True)
    deleted_at = serializers.DateTimeField(read_only=True, allow_null=True)
    expected_hash = serializers.CharField(
        write_only=True,
        required=False,
        allow_null=True,
        help_text="In a change: refuse it with 409 if this is not the newest hash.",
    )


class WhichVersionSerializer(serializers.Serializer):
    version = serializers.JSONField(help_text="The number or the id of a version.")
    expected_hash = serializers.CharField(required=False, allow_null=True)


class RedactionSerializer(serializers.Serializer):
    version = serializers.IntegerField(
        min_value=1, required=False, allow_null=True, help_text="Default: all versions."
    )
    expected_hash = serializers.CharField(required=False, allow_null=True)


class PartsSerializer(serializers.Serializer):
    """The parts of a score, which add up to it."""

    text = serializers.FloatField(help_text="Matching words, rare ones counting more.")
    meaning = serializers.FloatField(help_text="Similarity of the vectors.")
    neighbours = serializers.FloatField(help_text="How well the chunks around it match.")
    named = serializers.FloatField(help_text="The query names the speaker.")
    dated = serializers.FloatField(help_text="The query names a time, and it is of that time.")
    recency = serializers.FloatField()
    pin = serializers.FloatField()


class HitSerializer(serializers.Serializer):
    """One search result."""

    id = serializers.UUIDField(source="entry_id", help_text="The id of the document.")
    chunk_id = serializers.UUIDField()
    path = serializers.CharField()
    excerpt = serializers.CharField()
    score = serializers.FloatField()
    parts = PartsSerializer()
    strength = serializers.FloatField(help_text="From 0 to 1: how well it matches by itself.")
    weak = serializers.BooleanField(
        help_text="It fits so little that it may be here only because nothing fits better."
    )
    why = serializers.ListField(
        child=serializers.CharField(), help_text="The parts that count, the largest first."
    )
    scope = serializers.ChoiceField(choices=MemoryEntry.Scope.choices)
    trust = serializers.ChoiceField(choices=MemoryEntry.Trust.choices)
    pinned = serializers.BooleanField()
    updated_at = serializers.DateTimeField()


class MemoryImportForm(serializers.Serializer):
    file = serializers.FileField(help_text="A zip as the export creates it.")


class MemoryImportedSerializer(serializers.Serializer):
    created = serializers.IntegerField()
    changed = serializers.IntegerField()
    unchanged = serializers.IntegerField()


def new_entry(request: Request) -> DocumentInput:
    return read_input(DocumentInput, writable_fields(request, EntrySerializer))


def entry_change(request: Request, entry: MemoryEntry, *, replace: bool) -> DocumentChange:
    """Return the validated change. Raise if it names another owner than the document has."""
    fields = writable_fields(request, EntrySerializer)
    given = (
        read_input(DocumentInput, fields | {"path": fields.get("path") or entry.path})
        if replace
        else read_input(DocumentChange, fields)
    )
    owner = {"scope": entry.scope, "agent": entry.agent_id, "session": entry.session_id}
    for name, current in owner.items():
        value = getattr(given, name)
        if value is not None and str(value) != str(current):
            raise wrong_field(name, "A document cannot change its owner. Create another one.")
    return given


def workspace_reader(principal: Principal) -> Reader:
    """Return the reader for a person: everything but other people's own documents."""
    return Reader(
        workspace_id=authorise(principal, "read"),
        user_id=principal.user_id,
        whole_workspace=True,
    )


def reader_for(principal: Principal, *, agent: str | None, session: str | None) -> Reader:
    """Return the reader that an agent or a session would be, or else the caller's."""
    workspace_id = authorise(principal, "read")
    user_id = principal.user_id
    if not agent and not session:
        return workspace_reader(principal)
    agent_id = find_agent(workspace_id, agent).pk if agent else None
    session_id = None
    if session:
        session_id, agent_of_session = find_session(workspace_id, session)
        agent_id = agent_id or agent_of_session
    return Reader(
        workspace_id=workspace_id, agent_id=agent_id, user_id=user_id, session_id=session_id
    )


def owner_for(principal: Principal, given: DocumentInput) -> Owner:
    """Return the owner of a new document, as the body names it."""
    scope = given.scope or ("session" if given.session else "agent" if given.agent else "workspace")
    if scope in ("agent", "session") and not getattr(given, scope):
        raise wrong_field(scope, f"A document with the scope {scope} needs this field.")
    try:
        reader = reader_for(
            principal, agent=given.agent, session=str(given.session) if given.session else None
        )
    except NotFound as fault:
        raise wrong_field("agent" if given.agent else "session", fault.detail) from None
    return owner_within(reader, scope)


def find_session(workspace_id: UUID, ref: str) -> tuple[UUID, UUID]:
    """Return the ids of a session and of its agent."""
    try:
        owned = Session.objects.for_workspace(workspace_id).filter(pk=UUID(ref))
        found = owned.values_list("pk", "agent_id").first()
    except ValueError:
        raise Invalid("session must be the id of a session.") from None
    if found is None:
        raise NotFound("There is no such session.")
    return found

"""The shapes of memory's REST doors. They describe; `memory.api.inputs` judges."""

from __future__ import annotations

from rest_framework import serializers

from memory.models import MemoryEntry, MemoryVersion


class MemoryVersionSerializer(serializers.Serializer):
    """One text of a document, and where it came from."""

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
    """Who wrote the newest text, and from where."""

    author = serializers.ChoiceField(choices=MemoryVersion.Author.choices, read_only=True)
    user = serializers.UUIDField(source="created_by_id", read_only=True, allow_null=True)
    tool = serializers.CharField(read_only=True)
    session_id = serializers.UUIDField(read_only=True, allow_null=True)
    run_id = serializers.UUIDField(read_only=True, allow_null=True)
    call_id = serializers.CharField(read_only=True)
    event_id = serializers.UUIDField(read_only=True, allow_null=True)


class EntrySerializer(serializers.Serializer):
    """A document of memory with its newest text."""

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
        help_text="Whose it is. By default that of `session` or `agent`, else the workspace's.",
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
        required=False, help_text="Keep it, but let no search find it."
    )
    trust = serializers.ChoiceField(choices=MemoryEntry.Trust.choices, required=False)
    hash = serializers.CharField(read_only=True, help_text="Of the text: SHA-256, in hexadecimal.")
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
        help_text="In a change: refuse it with 409 when this is not the newest hash.",
    )


class WhichVersionSerializer(serializers.Serializer):
    version = serializers.JSONField(help_text="Its number, or its id.")
    expected_hash = serializers.CharField(required=False, allow_null=True)


class RedactionSerializer(serializers.Serializer):
    version = serializers.IntegerField(
        min_value=1, required=False, allow_null=True, help_text="All of them if left out."
    )
    expected_hash = serializers.CharField(required=False, allow_null=True)


class PartsSerializer(serializers.Serializer):
    """What a score is made of. The parts add up to it."""

    text = serializers.FloatField(help_text="The words asked for, rare ones counting more.")
    meaning = serializers.FloatField(help_text="How near the vectors are.")
    neighbours = serializers.FloatField(help_text="How well the text around it fits.")
    named = serializers.FloatField(help_text="The query names who speaks.")
    recency = serializers.FloatField()
    pin = serializers.FloatField()


class HitSerializer(serializers.Serializer):
    """One thing that was recalled."""

    id = serializers.UUIDField(source="entry_id", help_text="The document's.")
    chunk_id = serializers.UUIDField()
    path = serializers.CharField()
    excerpt = serializers.CharField()
    score = serializers.FloatField()
    parts = PartsSerializer()
    strength = serializers.FloatField(help_text="From 0 to 1, how well it fits by itself.")
    scope = serializers.ChoiceField(choices=MemoryEntry.Scope.choices)
    trust = serializers.ChoiceField(choices=MemoryEntry.Trust.choices)
    pinned = serializers.BooleanField()
    updated_at = serializers.DateTimeField()

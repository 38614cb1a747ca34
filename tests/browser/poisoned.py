"""Writes the corpus into everything of a workspace that a person, a model or a tool can fill."""

from __future__ import annotations

import json
from itertools import count, cycle
from typing import Any

from django.contrib.postgres.fields import ArrayField
from django.db import connection, models
from django.db.models import Model, QuerySet
from encrypted_fields.fields import EncryptedTextField

from tenants.models import User, Workspace
from tests.browser.corpus import CORPUS, WHOLE
from tests.factories import our_models

#: What nobody writes: ids, digests, secrets, and words of the product's own lists.
CHOSEN = frozenset(
    [
        "slug",
        "password",
        "digest",
        "email_digest",
        "key_digest",
        "body_digest",
        "prefix",
        "provider",
        "kind",
        "dedupe_key",
        "hash",
        "key",
        "timezone",
        "cron",
        "protocol",
        "ownership",
        "decision",
        "token",
        "tool_use_id",
        "call_id",
        "profile",
        "part",
        "type",
        "workflow",
        "content_type",
        "sandbox",
        "client",
        "stop_reason",
        "share_hash",
        "hint",
        "query",
        "coming",
        "state",
        "status",
        "scope",
        "role",
        "carried",
        "tokens",
        "from",
        "to",
        "agents",
        "event_id",
        "run_id",
        "snapshot_id",
        "child_session_id",
        "repeatable_tools",
        "id",
        "source",
        "target",
        "number",
        "purses",
        "message_seqs",
        "memory_ids",
    ]
)
#: Texts that are JSON.
JSON_TEXTS = frozenset({"result", "payload"})
#: What a page may turn into a link, so the worst that a link can hold.
ADDRESSES = frozenset({"link", "url", "base_url"})
_numbers = count(1)
_short = cycle(CORPUS)


def poison(workspace: Workspace) -> None:
    """Every text of every row, past the triggers that keep logs and versions as they are."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        try:
            for model in our_models():
                if (rows := _rows_of(model, workspace)) is not None:
                    _poison(rows)
        finally:
            cursor.execute("SET session_replication_role = DEFAULT")


def _rows_of(model: type[Model], workspace: Workspace) -> QuerySet | None:
    if model is Workspace:
        return Workspace.objects.filter(pk=workspace.pk)
    if model is User:
        return User.objects.filter(memberships__workspace=workspace)
    way = _way(model)
    return model._default_manager.filter(**{way: workspace}) if way else None


def _way(model: type[Model], deep: int = 3) -> str:
    """How the rows of a model lead to their workspace."""
    owners = [f for f in model._meta.concrete_fields if isinstance(f, models.ForeignKey)]
    if any(field.name == "workspace" for field in owners):
        return "workspace"
    ways = (f"{f.name}__{_way(f.related_model, deep - 1)}" for f in owners if deep)
    return next((way for way in ways if way.endswith("workspace")), "")


def _poison(rows: QuerySet) -> None:
    for row in rows:
        written = {
            field.attname: value
            for field in row._meta.concrete_fields
            if (value := _evil(field, getattr(row, field.attname))) is not None
        }
        if written:
            rows.model._default_manager.filter(pk=row.pk).update(**written)


def _evil(field: models.Field, value: Any) -> Any:
    """What to write into a field, or None where nobody can write."""
    if value is None or field.choices or field.name in CHOSEN:
        return None
    if isinstance(field, EncryptedTextField):
        return None
    if isinstance(field, models.EmailField):
        return f'"<svg/onload=hit({next(_numbers)})>"@example.com'
    if isinstance(field, models.TextField) and field.name in JSON_TEXTS:
        return json.dumps({WHOLE: _text(None)})
    if field.name in ADDRESSES:
        return f"javascript:hit({next(_numbers)})"
    if isinstance(field, models.CharField | models.TextField):
        return _text(field.max_length)
    if isinstance(field, models.JSONField):
        return _inside(value, field.name)
    if isinstance(field, ArrayField) and isinstance(field.base_field, models.CharField):
        return [_text(field.base_field.max_length)]
    return None


def _text(most: int | None) -> str:
    """One of the corpus where there is little room, all of it where there is more; never the same."""
    if most is None:
        return f"{WHOLE}\n\n{next(_numbers)}"
    end = f" {next(_numbers)}"
    fitting = next(one for one in _short if len(one) + len(end) <= most)
    return f"{fitting}{end}"


def _inside(value: Any, name: str) -> Any:
    """The same structure with other words in it."""
    match value:
        case dict():
            return {key: _inside(one, key) for key, one in value.items()}
        case list():
            return [_inside(one, name) for one in value]
        case str() if name not in CHOSEN:
            return _text(None)
        case _:
            return value

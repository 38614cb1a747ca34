"""Writes the corpus into every field that a person, a model or a tool can fill."""

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

#: Fields that no user can fill: ids, digests, secrets and values of the product's own enums.
NOT_WRITABLE = frozenset(
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
        "share_token",
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
#: Text fields that contain JSON.
JSON_TEXTS = frozenset({"result", "payload"})
#: Fields that a page may render as a link.
ADDRESSES = frozenset({"link", "url", "base_url"})
_numbers = count(1)
_short = cycle(CORPUS)


def poison(workspace: Workspace) -> None:
    """Overwrite every text of every row, bypassing the triggers that protect logs and versions."""
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
    lookup = _workspace_lookup(model)
    return model._default_manager.filter(**{lookup: workspace}) if lookup else None


def _workspace_lookup(model: type[Model], deep: int = 3) -> str:
    """Return the lookup from a model to its workspace."""
    owners = [f for f in model._meta.concrete_fields if isinstance(f, models.ForeignKey)]
    if any(field.name == "workspace" for field in owners):
        return "workspace"
    lookups = (f"{f.name}__{_workspace_lookup(f.related_model, deep - 1)}" for f in owners if deep)
    return next((lookup for lookup in lookups if lookup.endswith("workspace")), "")


def _poison(rows: QuerySet) -> None:
    for row in rows:
        written = {
            field.attname: value
            for field in row._meta.concrete_fields
            if (value := _hostile_value(field, getattr(row, field.attname))) is not None
        }
        if written:
            rows.model._default_manager.filter(pk=row.pk).update(**written)


def _hostile_value(field: models.Field, value: Any) -> Any:
    """Return a hostile value for a field, or None if no user can write it."""
    if value is None or field.choices or field.name in NOT_WRITABLE:
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
    """Return a unique text: one attempt if the length is limited, otherwise the whole corpus."""
    if most is None:
        return f"{WHOLE}\n\n{next(_numbers)}"
    end = f" {next(_numbers)}"
    fitting = next(one for one in _short if len(one) + len(end) <= most)
    return f"{fitting}{end}"


def _inside(value: Any, name: str) -> Any:
    """Return the same structure with hostile texts."""
    match value:
        case dict():
            return {key: _inside(one, key) for key, one in value.items()}
        case list():
            return [_inside(one, name) for one in value]
        case str() if name not in NOT_WRITABLE:
            return _text(None)
        case _:
            return value

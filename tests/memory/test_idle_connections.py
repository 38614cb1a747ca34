"""Tests that imports and exports hold no database connection while they compute."""

from __future__ import annotations

import io
import zipfile
from typing import Any

import orjson
import pytest
from django.db import connection

from agents.models import Agent
from memory import archive
from memory.api import documents
from memory.models import MemoryEntry
from sessions_app.log import transfer
from tests.factories import make

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def agent(workspace):
    return Agent.objects.filter(workspace=workspace).first()


@pytest.fixture
def watched(monkeypatch):
    """Return a function that lets a named function note whether a connection is held."""
    held: list[bool] = []

    def watch(module: Any, name: str) -> list[bool]:
        original = getattr(module, name)

        def noting(*args: Any, **kwargs: Any) -> Any:
            held.append(connection.connection is not None)
            return original(*args, **kwargs)

        monkeypatch.setattr(module, name, noting)
        return held

    return watch


def test_unpacking_an_import_holds_none(api, agent, watched):
    held = watched(documents, "read_archive")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("note.md", "Tea is served at five.")
    answer = api.post(
        f"/api/v1/memory/import/?agent={agent.pk}", out.getvalue(), content_type="application/zip"
    )

    assert (answer.status_code, answer.json()["created"]) == (200, 1)
    assert held == [False]


def test_compressing_an_export_holds_none(api, workspace, agent, watched):
    for name in ("a", "b"):
        entry = make(MemoryEntry, workspace)
        entry_path = f"{name}.md"
        MemoryEntry.objects.filter(pk=entry.pk).update(
            path=entry_path, scope="agent", agent_id=agent.pk, owner_id=agent.pk
        )
    held = watched(archive, "with_front_matter")
    answer = api.get(f"/api/v1/memory/export/?agent={agent.pk}")
    names = zipfile.ZipFile(io.BytesIO(b"".join(answer.streaming_content))).namelist()

    assert {"a.md", "b.md"} <= set(names)
    assert held
    assert not any(held)


def test_parsing_an_imported_session_holds_none(api, agent, watched):
    held = watched(transfer, "_parse_line")
    line = orjson.dumps({"type": "user.message", "payload": {"text": "Hello"}})
    answer = api.post(
        f"/api/v1/sessions/import/?agent={agent.pk}", line, content_type="application/x-ndjson"
    )

    assert answer.status_code == 201, answer.content
    assert held == [False]

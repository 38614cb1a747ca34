"""Tests that a process killed during an import or a change of model leaves nothing half done."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection

from agents.providers.keys import save_key
from memory.embeddings import chosen_embedder, missing
from memory.models import MemoryChunk, MemoryEntry, MemoryVector, MemoryVersion
from memory.recall import recall
from tests.memory.conftest import remember_for
from tests.wire.openai import OpenAIWire

ROOT = Path(__file__).parents[2]
MODEL = "openai:text-embedding-3-small@64"
#: How many different points of a job are tried.
KILL_POINTS = 5

pytestmark = pytest.mark.django_db(transaction=True)


def run(job: str, last: int, workspace, agent, **env: str) -> tuple[int, str]:
    """Run the job in a process that dies before its writing statement `last`; 0 lets it finish."""
    database = connection.settings_dict
    url = f"postgresql://{database['USER']}@/{database['NAME']}?host={database['HOST']}"
    if not settings.EMBEDDED:
        url = settings.DATABASE_URL.rsplit("/", 1)[0] + f"/{database['NAME']}"
    variables = {
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "config.settings.test",
        "LOG_LEVEL": "WARNING",
        "WORKSPACE": str(workspace.pk),
        "AGENT": str(agent.pk),
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.memory.victim", job, str(last)],
        cwd=ROOT,
        env={**os.environ, **variables, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-2_000:]
    return done.returncode, done.stdout


def kill_points(total: int) -> list[int]:
    """Return the first, the last and some random statements between."""
    between = random.sample(range(2, total), min(KILL_POINTS - 2, max(0, total - 2)))
    return sorted({1, total, *between})


def stored_documents(agent) -> dict[str, tuple[str, int, int]]:
    """Return each document's text, versions and chunks."""
    rows = MemoryEntry.objects.filter(owner_id=agent.pk).select_related("current")
    return {
        row.path: (
            row.current.content if row.current else "",
            row.versions.count(),
            row.chunks.count(),
        )
        for row in rows
    }


def test_a_killed_import_changes_nothing_and_can_be_repeated(workspace, agent, reader, tmp_path):
    remember_for(reader, "3.md", "What was there before.")
    before = stored_documents(agent)
    with zipfile.ZipFile(tmp_path / "memory.zip", "w") as file:
        for number in range(6):
            file.writestr(f"{number}.md", f"# {number}\n\nThe kettle number {number}.")
    env = {"ARCHIVE": str(tmp_path / "memory.zip")}
    # Each document needs at least a row, a version, a pointer and chunks.
    total = 6 * 4
    for last in kill_points(total):
        code, _ = run("import", last, workspace, agent, **env)
        assert code == -signal.SIGKILL, f"there is no statement {last}"
        assert stored_documents(agent) == before, f"killed before statement {last}"
        assert not MemoryVersion.objects.filter(entry__path="0.md").exists()

    code, statements = run("import", 0, workspace, agent, **env)
    assert code == 0
    assert int(statements) >= total
    after = stored_documents(agent)
    assert len(after) == 6
    assert after["3.md"] == ("# 3\n\nThe kettle number 3.", 2, 1)
    assert {hit.path for hit in recall(reader, "kettle number")} == set(after)


def test_a_killed_move_to_another_model_loses_nothing_and_can_continue(
    workspace, agent, reader, settings
):
    for number in range(5):
        remember_for(reader, f"{number}.md", f"The kettle number {number} is in the kitchen.")
    with OpenAIWire() as wire:
        address = wire.url.removeprefix("http://").split("/")[0]
        settings.EGRESS_ALLOWED_PRIVATE = [address]
        save_key(workspace_id=workspace.pk, provider="openai", api_key=wire.key, base_url=wire.url)
        env = {"MODEL": MODEL, "EGRESS_ALLOWED_PRIVATE": address}
        reached = 0
        for last in range(1, 40):
            code, _ = run("reembed", last, workspace, agent, **env)
            if code == 0:
                break
            reached = last
            assert MemoryVector.objects.filter(model="minilm").count() == 5
            assert len(recall(reader, "kettle in the kitchen")) == 5
            half = MemoryVector.objects.filter(model=MODEL).count()
            assert half in (0, 5), "a batch is one commit"
        assert reached >= 3
        run("reembed", 0, workspace, agent, **env)

        assert chosen_embedder(workspace.pk).name == MODEL
        assert not missing(workspace.pk, MODEL).exists()
        assert MemoryChunk.objects.count() == 5
        assert recall(reader, "kettle number 3")[0].path == "3.md"

"""Tests that a workspace which floods a pool delays another one by little: at most twice its quiet time.

Whatever takes a place in a pool takes it for `BUSY` seconds without using the processor, so that
the times show the waiting for a place and not the speed of the machine. In a pool that serves in the order of arrival
the other workspace would wait behind the flood, many times as long. `make soak` asks more often.
"""

from __future__ import annotations

import io
import sys
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from statistics import quantiles
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from agents.providers.base import Delta, ModelRequest, TextDelta, Usage
from core import throttling
from core.ids import uuid7
from core.throttling import embedding_slot
from memory import archive
from memory.api import documents
from memory.documents import write_entry
from memory.embedders import EMBEDDERS, Vector, WordLlamaEmbedder
from memory.models import EmbeddingChoice, MemoryEntry
from memory.ownership import Owner, person
from sessions_app.lanes.host import LaneHost
from sessions_app.lanes.signals import FINISHED
from sessions_app.models import Run
from sessions_app.sessions import get_or_create_session
from tenants.keys import issue_key
from tenants.models import Workspace
from tests.conftest import SOAK_SECONDS
from tests.core.raw_http import ask, small_server
from tests.factories import agent as make_agent
from tests.sessions_app import long_talk
from tests.tools_app.conftest import data_dir, folder, needs_bwrap, sandbox
from tools_app.files import SessionFolder
from tools_app.sandbox.base import Limits
from tools_app.sandbox.local import LocalSandbox
from tools_app.sandbox.provisioning import LazySandbox

__all__ = ["data_dir", "folder", "sandbox"]
pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(900),
    pytest.mark.soak,
]
#: How long one use of a pool lasts, and how much slower the other workspace may be.
BUSY, MOST = 0.25, 2.0
#: How often each workspace asks, how many clients flood, and how often a busy machine may try again.
ASKED, CROWD, ROUNDS = (100 if SOAK_SECONDS else 12), 24, 3
Act = Callable[[], object]


def p95(act: Act) -> float:
    """Return the time that 95 of 100 uses stay below."""
    times = []
    for _ in range(ASKED):
        began = time.monotonic()
        act()
        times.append(time.monotonic() - began)
    return quantiles(times, n=20)[-1]


def crowd_of(act: Act) -> Callable[[], AbstractContextManager[None]]:
    """Return a flood: many threads use a pool at once, and again as soon as a use has ended."""
    return partial(flooding, act)


@contextmanager
def flooding(act: Act) -> Iterator[None]:
    stop = threading.Event()

    def go_on() -> None:
        try:
            while not stop.is_set():
                act()
        finally:
            connection.close()

    crowd = [threading.Thread(target=go_on) for _ in range(CROWD)]
    for thread in crowd:
        thread.start()
    try:
        time.sleep(2 * BUSY)
        yield
    finally:
        stop.set()
        for thread in crowd:
            thread.join(120)
            assert not thread.is_alive()


def assert_fair(name: str, other: Act, flood: Callable[[], AbstractContextManager[None]]) -> None:
    """Assert that the other workspace is at most `MOST` times as slow while the pool is flooded."""
    other()
    measured = []
    for _ in range(ROUNDS):
        quiet = p95(other)
        with flood():
            loud = p95(other)
        measured.append(loud / quiet)
        sys.stdout.write(
            f"{name}: p95 {quiet:.3f} s, in a flood {loud:.3f} s: {loud / quiet:.2f} times\n"
        )
        if measured[-1] <= MOST:
            return
    raise AssertionError(f"The other workspace was {measured} times as slow.")


def test_web_connections(workspace, foreign_workspace):
    keys = [
        issue_key(workspace_id=one.pk, name="test", scope="read").secret
        for one in (workspace, foreign_workspace)
    ]
    with small_server(SLOW_LISTS=str(BUSY)) as server:

        def listed(key: str) -> None:
            assert ask(server, "/api/v1/agents/", key=key).status in {200, 429}

        assert_fair("web connections", lambda: listed(keys[1]), crowd_of(lambda: listed(keys[0])))


class SlowModel:
    """Answers after a while, or for the workspace that floods only when the flood is over."""

    def __init__(self, end_of_flood: threading.Event | None = None) -> None:
        self._end_of_flood = end_of_flood

    def stream(self, request: ModelRequest) -> Iterator[Delta]:
        if self._end_of_flood:
            assert self._end_of_flood.wait(600)
        time.sleep(BUSY)
        yield TextDelta(text="Done.")
        yield Usage(input_tokens=1, output_tokens=1)


def test_workers(workspace, foreign_workspace, monkeypatch):
    """Runs that hold their lanes for as long as they like leave lanes to another workspace."""
    end_of_flood = threading.Event()
    models = {workspace.pk: SlowModel(end_of_flood), foreign_workspace.pk: SlowModel()}
    monkeypatch.setattr("sessions_app.harness.loop.provider_for", lambda id, *_: models[id])
    host = object.__new__(LaneHost)
    host._prepare(uuid7(), slots=8)

    def begin(workspace: Workspace, agent: Any) -> UUID:
        session, _ = get_or_create_session(agent=agent)
        long_talk.say(session, "hello")
        return session.pk

    other_agent, flooding_agent = make_agent(foreign_workspace), make_agent(workspace)

    def answered() -> None:
        session_id = begin(foreign_workspace, other_agent)
        host.wake_many([session_id])
        while Run.objects.filter(session=session_id).exclude(status__in=FINISHED).exists():
            time.sleep(0.02)

    @contextmanager
    def many_runs() -> Iterator[None]:
        end_of_flood.clear()
        host.wake_many([begin(workspace, flooding_agent) for _ in range(CROWD)])
        while len(host.leases) < host.share:
            time.sleep(0.02)
        yield
        end_of_flood.set()
        while Run.objects.exclude(status__in=FINISHED).exists():
            time.sleep(0.1)

    assert_fair("workers", answered, many_runs)


def test_imports(workspace, foreign_workspace, monkeypatch, settings):
    settings.TRANSFERS_PER_WORKSPACE = 2
    monkeypatch.setattr(settings, "DATABASE_POOL", 8)
    monkeypatch.setattr(throttling, "TRANSFER_WAIT", 60.0)
    original = archive.read_archive

    def slow(file: io.BytesIO) -> Any:
        time.sleep(BUSY)
        return original(file)

    monkeypatch.setattr(documents, "read_archive", slow)
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("note.md", "Tea is served at five.")

    def import_for(workspace: Workspace) -> None:
        documents.import_file(
            owner_of(workspace), io.BytesIO(out.getvalue()), by=None, overwrite=True
        )
        connection.close()

    import_for(workspace)  # from now on, nothing changes and nothing conflicts
    assert_fair(
        "imports", lambda: import_for(foreign_workspace), crowd_of(lambda: import_for(workspace))
    )


def owner_of(workspace: Workspace) -> Owner:
    return Owner(
        workspace_id=workspace.pk, scope=MemoryEntry.Scope.WORKSPACE, owner_id=workspace.pk
    )


class SlowEmbedder(WordLlamaEmbedder):
    """Stands for a model server that takes a while. A local model's places are not shared out."""

    name = "slow"

    def embed(self, texts: Any) -> list[Vector]:
        time.sleep(BUSY)
        return super().embed(texts)


def test_embeddings(workspace, foreign_workspace, monkeypatch):
    monkeypatch.setitem(EMBEDDERS, "slow", lambda workspace_id: SlowEmbedder())
    monkeypatch.setattr("memory.index.is_local", lambda embedder: False)
    EmbeddingChoice.objects.create(workspace=foreign_workspace, model="slow")

    def remember() -> None:
        path = f"{uuid7()}.md"
        write_entry(
            owner=owner_of(foreign_workspace),
            path=path,
            content=f"Note {path}",
            author=person(None),
        )
        connection.close()

    def embed() -> None:
        with embedding_slot(workspace.pk):
            SlowEmbedder().embed(["A note."])

    assert_fair("embeddings", remember, crowd_of(embed))


@needs_bwrap
def test_sandboxes(data_dir, settings):
    settings.SANDBOXES_PER_WORKSPACE = 3

    def sandbox_of(workspace_id: UUID) -> LazySandbox:
        made = SessionFolder(workspace_id=workspace_id, session_id=uuid7())
        return LazySandbox(
            lambda: LocalSandbox(folder=made, limits=Limits()), workspace_id=workspace_id
        )

    workspace_id, other = uuid7(), sandbox_of(uuid7())
    with ExitStack() as stack:
        stack.callback(other.destroy)
        mine = sandbox_of(workspace_id)
        assert_fair(
            "sandboxes",
            lambda: other.execute(f"sleep {4 * BUSY}", seconds=60),
            crowd_of(lambda: mine.execute(f"sleep {4 * BUSY}", seconds=60)),
        )

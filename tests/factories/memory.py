"""Creates rows of memory."""

from __future__ import annotations

from memory.documents import write_entry
from memory.models import (
    EmbeddingChoice,
    MemoryChunk,
    MemoryEntry,
    MemoryVector,
    MemoryVersion,
)
from memory.ownership import Owner, person
from tenants.models import Workspace
from tests.factories.agents import agent
from tests.factories.base import Factory, numbers


def memory(workspace: Workspace) -> MemoryEntry:
    known = agent(workspace)
    return write_entry(
        owner=Owner(workspace_id=workspace.pk, scope=MemoryEntry.Scope.AGENT, owner_id=known.pk),
        path=f"notes/{next(numbers)}.md",
        content=f"Note {next(numbers)}: the office closes at six.",
        author=person(known.created_by_id),
    )


FACTORIES: dict[str, Factory] = {
    "memory.MemoryEntry": memory,
    "memory.MemoryVersion": lambda workspace: MemoryVersion.objects.get(entry=memory(workspace)),
    "memory.MemoryChunk": lambda workspace: MemoryChunk.objects.get(entry=memory(workspace)),
    "memory.MemoryVector": lambda workspace: MemoryVector.objects.get(
        chunk__entry=memory(workspace)
    ),
    "memory.EmbeddingChoice": lambda workspace: EmbeddingChoice.objects.create(
        workspace=Workspace.objects.create(name="Other", slug=f"other-{next(numbers)}"),
        model="wordllama",
    ),
}

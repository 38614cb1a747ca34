"""Where on this machine what was prepared for a session lies."""

from __future__ import annotations

from pathlib import Path

from sessions_app.models import ResourceAttachment
from sessions_app.preparing.files import shared_path
from tools_app.folder import SessionFolder


def prepared_room(folder: SessionFolder) -> Path:
    """The folder of all that was made for one session."""
    return folder.root / "mounts"


def source_of(folder: SessionFolder, resource: ResourceAttachment) -> Path | None:
    """What is mounted for a resource; None when nothing was made for it yet."""
    if resource.kind == ResourceAttachment.Kind.WORKSPACE_DIRECTORY:
        return shared_path(folder, resource.source_ref)
    return prepared_room(folder) / resource.prepared_as if resource.prepared_as else None


def is_writable(resource: ResourceAttachment) -> bool:
    return resource.access == ResourceAttachment.Access.READ_WRITE

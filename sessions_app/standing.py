"""What stands mounted in a session between its runs, for people who look into its sandbox.

Memory and secrets are made for a run and go with it, so they are not among it.
"""

from __future__ import annotations

from sessions_app.models import ResourceAttachment, Session
from sessions_app.preparing import EACH_RUN
from sessions_app.preparing.places import is_writable, source_of
from tools_app.folder import SessionFolder
from tools_app.mounts import make_mount_points
from tools_app.sandbox.base import Mount


def standing_mounts(session: Session) -> tuple[Mount, ...]:
    """The prepared resources that last."""
    folder = SessionFolder(workspace_id=session.workspace_id, session_id=session.pk)
    ready = ResourceAttachment.objects.filter(
        session=session, status=ResourceAttachment.Status.READY
    ).exclude(kind__in=EACH_RUN)
    mounts = []
    for resource in ready:
        source = source_of(folder, resource)
        if source is not None and source.exists():
            writable = is_writable(resource)
            mounts.append(Mount(source=source, target=resource.mount_path, writable=writable))
    if mounts:
        folder.make()
        make_mount_points(folder, mounts)
    return tuple(mounts)

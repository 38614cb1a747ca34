"""Secrets as files, for a sandbox that a person chose to give them to.

Whatever runs in that sandbox can read them, and so can the model. The files belong to the user who
runs the session's commands, lie outside the session's folder, and go when the run ends.
"""

from __future__ import annotations

from config.faults import Fault, ResourceFailed
from sessions_app.preparing.job import Job, Prepared, put
from tenants.off_loop import let_go
from tenants.vault import reveal


def reveal_secrets(job: Job) -> Prepared:
    """One file per secret, named after it."""
    secrets = []
    for name in sorted({part.strip() for part in job.resource.source_ref.split(",")}):
        try:
            value = reveal(job.folder.workspace_id, name)
        except Fault as fault:
            raise ResourceFailed(f"{name}: {fault.detail}") from fault
        put(job.into / name, value.encode(), mode=0o400)
        secrets.append(value)
    let_go()
    return Prepared(source=job.into, secrets=tuple(secrets))

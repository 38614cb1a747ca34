"""Makes each kind of resource a folder or a file that a session's sandbox can mount."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sessions_app.preparing.files import share_directory, take_file
from sessions_app.preparing.job import Job, Prepared
from sessions_app.preparing.memories import write_learnings, write_runtime_memory
from sessions_app.preparing.repositories import clone
from sessions_app.preparing.stores import fetch_store
from sessions_app.preparing.vaults import reveal_secrets

__all__ = ["EACH_RUN", "PREPARERS", "Job", "Prepared"]

PREPARERS: Mapping[str, Callable[[Job], Prepared]] = {
    "workspace_directory": share_directory,
    "local_file": take_file,
    "learnings_memory_store": write_learnings,
    "session_runtime_memory": write_runtime_memory,
    "vault": reveal_secrets,
    "remote_file_store": fetch_store,
    "repo_mount": clone,
}
#: What is made anew for every run. Everything else lasts until it is refreshed or taken away.
EACH_RUN = frozenset({"learnings_memory_store", "session_runtime_memory", "vault"})

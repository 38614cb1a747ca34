"""What may be said about a resource: its kind, where it comes from and where a session sees it."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from agents.inputs import STORABLE, Input

Kind: TypeAlias = Literal[
    "workspace_directory",
    "local_file",
    "learnings_memory_store",
    "session_runtime_memory",
    "vault",
    "remote_file_store",
    "repo_mount",
]

#: Where each kind may stand. A place that ends in a slash needs a name below it.
PLACES: dict[str, str] = {
    "workspace_directory": "/workspace/",
    "local_file": "/workspace/",
    "repo_mount": "/workspace/",
    "remote_file_store": "/workspace/",
    "learnings_memory_store": "/memory/learnings",
    "session_runtime_memory": "/runtime",
    "vault": "/vaults/",
}
#: Kinds that are shown and never written, and why.
ONLY_READ: dict[str, str] = {
    "learnings_memory_store": "Learnings are read here and written by the memory tools.",
    "session_runtime_memory": "A session's memory is read here and written by the memory tools.",
    "vault": "Secrets are written in the vault only.",
    "remote_file_store": "A remote store is copied in to be read; nothing is copied back.",
}
#: Stores that files are copied from. `file` and its like would show this machine.
STORES = ("https", "http", "s3", "gs", "gcs")

#: How else people write it.
SHORT_FOR = {
    **dict.fromkeys(("ro", "read", "read-only", "readonly"), "read_only"),
    **dict.fromkeys(("rw", "write", "read-write", "readwrite"), "read_write"),
}

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")
_SECRETS = re.compile(r"[A-Za-z0-9_.-]{1,80}(?:\s*,\s*[A-Za-z0-9_.-]{1,80}){0,49}")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,199}")


def _mount_path(raw: str) -> str:
    path = PurePosixPath(raw)
    if not path.is_absolute() or raw.startswith("//") or ".." in path.parts or len(path.parts) < 2:
        raise ValueError("A mount path is absolute, as in /workspace/data, and has no `..`.")
    return str(path)


def _access(said: object) -> object:
    return SHORT_FOR.get(said, said) if isinstance(said, str) else said


class Mount(Input):
    """A resource of a session, or one that each session in an environment starts with."""

    kind: Kind
    source_ref: Annotated[str, Field(max_length=500), STORABLE] = ""
    mount_path: Annotated[str, Field(max_length=200), AfterValidator(_mount_path), STORABLE]
    access: Annotated[Literal["read_only", "read_write"], BeforeValidator(_access)] = "read_only"

    @model_validator(mode="after")
    def _stands_in_its_place(self) -> Self:
        place = PLACES[self.kind]
        below = place.rstrip("/") + "/"
        if not (self.mount_path == place or self.mount_path.startswith(below)):
            name = f"{place}NAME" if place.endswith("/") else place
            raise ValueError(f"A {self.kind} is mounted at {name}.")
        if self.access == "read_write" and self.kind in ONLY_READ:
            raise ValueError(f"{ONLY_READ[self.kind]} Use read_only.")
        return self

    @model_validator(mode="after")
    def _comes_from_somewhere(self) -> Self:
        complaint = _complaint(self.kind, self.source_ref)
        if complaint:
            raise ValueError(complaint)
        return self


def _complaint(kind: str, source: str) -> str:
    """What is wrong with a source, if anything is."""
    match kind:
        case "workspace_directory" if not _NAME.fullmatch(source):
            return "source_ref is the directory's name: letters, digits, `.`, `_`, `-`; no slash."
        case "local_file" if not _stays_inside(source):
            return "source_ref is a path relative to the session's files and has no `..`."
        case "vault" if not _SECRETS.fullmatch(source):
            return "source_ref names one secret of the vault, or several with commas between them."
        case "repo_mount":
            return _repository_complaint(source)
        case "remote_file_store":
            return _store_complaint(source)
        case _:
            return ""


def _stays_inside(source: str) -> bool:
    path = PurePosixPath(source)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _repository_complaint(source: str) -> str:
    address, _, revision = source.partition("#")
    if revision and not _REVISION.fullmatch(revision):
        return "What follows # is the name of a branch or tag."
    if address.startswith("/"):
        return "" if ".." not in PurePosixPath(address).parts else "A path has no `..`."
    return _address_complaint(address, ("https",))


def _store_complaint(source: str) -> str:
    return _address_complaint(source, STORES)


def _address_complaint(address: str, schemes: tuple[str, ...]) -> str:
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in schemes or not address.isprintable() or " " in address:
        return (
            f"source_ref is an address that begins with {' or '.join(f'{s}://' for s in schemes)}."
        )
    if parts.username or parts.password:
        return "An address has no name and password in it: it is shown in the log."
    return ""

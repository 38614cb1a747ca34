"""Validates mounts: the files, folders, memory and secrets that a session's sandbox shows."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal, Self, TypeAlias
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from core.exceptions import Invalid
from core.http import ascii_host
from core.validation import STORABLE, Input

Kind: TypeAlias = Literal[
    "workspace_directory",
    "local_file",
    "learnings_memory_store",
    "session_runtime_memory",
    "vault",
    "remote_file_store",
    "repo_mount",
]

#: Where each kind may be mounted. A path that ends in a slash needs a name below it.
PLACES: dict[str, str] = {
    "workspace_directory": "/workspace/",
    "local_file": "/workspace/",
    "repo_mount": "/workspace/",
    "remote_file_store": "/workspace/",
    "learnings_memory_store": "/memory/learnings",
    "session_runtime_memory": "/runtime",
    "vault": "/vaults/",
}
#: Kinds that are always read-only, and why.
ONLY_READ: dict[str, str] = {
    "learnings_memory_store": "Learnings are read-only here; the memory tools write them.",
    "session_runtime_memory": "A session's memory is read-only here; the memory tools write it.",
    "vault": "Secrets are changed in the vault only.",
    "remote_file_store": "Files of a remote store are copied in; nothing is copied back.",
}
#: Schemes of remote stores. `file` and the like would expose this machine.
STORES = ("https", "http", "s3", "gs", "gcs")

#: Kinds whose source may be a web address.
FETCHED = ("remote_file_store", "repo_mount")

#: Other spellings of the two kinds of access.
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
        raise ValueError("A mount path must be absolute, as in /workspace/data, without `..`.")
    return str(path)


def _access(value: object) -> object:
    return SHORT_FOR.get(value, value) if isinstance(value, str) else value


class Mount(Input):
    """A mount of a session, or one that every session in an environment starts with."""

    kind: Kind
    source_ref: Annotated[str, Field(max_length=500), STORABLE] = ""
    mount_path: Annotated[str, Field(max_length=200), AfterValidator(_mount_path), STORABLE]
    access: Annotated[Literal["read_only", "read_write"], BeforeValidator(_access)] = "read_only"

    @field_validator("source_ref")
    @classmethod
    def _names_the_host_it_reaches(cls, source: str, info: ValidationInfo) -> str:
        return _with_ascii_host(source) if info.data.get("kind") in FETCHED else source

    @model_validator(mode="after")
    def _stands_in_its_place(self) -> Self:
        place = PLACES[self.kind]
        below = place.rstrip("/") + "/"
        if not (self.mount_path == place or self.mount_path.startswith(below)):
            name = f"{place}NAME" if place.endswith("/") else place
            raise ValueError(f"A {self.kind} must be mounted at {name}.")
        if self.access == "read_write" and self.kind in ONLY_READ:
            raise ValueError(f"{ONLY_READ[self.kind]} Use read_only.")
        return self

    @model_validator(mode="after")
    def _comes_from_somewhere(self) -> Self:
        error = _source_error(self.kind, self.source_ref)
        if error:
            raise ValueError(error)
        return self


def _source_error(kind: str, source: str) -> str:
    """Return what is wrong with a source, or an empty string."""
    match kind:
        case "workspace_directory" if not _NAME.fullmatch(source):
            return "source_ref must be a directory name: letters, digits, `.`, `_`, `-`; no slash."
        case "local_file" if not _stays_inside(source):
            return "source_ref must be a path relative to the session's files, without `..`."
        case "vault" if not _SECRETS.fullmatch(source):
            return "source_ref must name secrets of the vault, separated by commas."
        case "repo_mount":
            return _repository_error(source)
        case "remote_file_store":
            return _address_error(source, STORES)
        case _:
            return ""


def _stays_inside(source: str) -> bool:
    path = PurePosixPath(source)
    return bool(path.parts) and not path.is_absolute() and ".." not in path.parts


def _with_ascii_host(address: str) -> str:
    """Return the address with an international host in punycode, so that people see where it leads."""
    try:
        parts = urlsplit(address)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return address
    if parts.scheme not in ("http", "https") or parts.username or host.isascii():
        return address
    try:
        name = ascii_host(host)
    except Invalid as fault:
        raise ValueError(fault.detail) from fault
    return parts._replace(netloc=f"{name}:{port}" if port else name).geturl()


def _repository_error(source: str) -> str:
    address, _, revision = source.partition("#")
    if not address.isprintable():
        return "An address or path cannot contain control characters."
    if revision and not _REVISION.fullmatch(revision):
        return "The text after # must be the name of a branch or tag."
    if address.startswith("/"):
        return "" if ".." not in PurePosixPath(address).parts else "A path cannot contain `..`."
    return _address_error(address, ("https",))


def _address_error(address: str, schemes: tuple[str, ...]) -> str:
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme not in schemes or not address.isprintable() or " " in address:
        return f"source_ref must be an address that begins with {' or '.join(f'{s}://' for s in schemes)}."
    if parts.username or parts.password:
        return "An address cannot contain a user name or password: it is shown in the log."
    return ""

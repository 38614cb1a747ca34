"""Turns what comes with a message, and what is sent to a model, into parts and back.

A file of a message stays a file of the session, for tools. If a model could read it, its content is
also stored as a part, which no later change of the file touches.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any
from uuid import UUID

from agents.model_catalog import ModelInfo
from agents.providers.base import Message, Part
from core.exceptions import Invalid, NotFound
from core.validation import Input, read_input
from sessions_app.log.payloads import Attachment
from sessions_app.models import Session
from sessions_app.resources.files import open_stored, store_file
from tools_app.parts import (
    FILE_ID,
    SNIFFED,
    find_part,
    kind_of,
    load_content,
    most_bytes,
    store_part,
)

#: Bytes of all parts of one request, the newest first. Vendors refuse larger ones.
MAX_REQUEST_BYTES = 20_000_000
#: Parts of one result of a client's tool.
MOST_PARTS = 10
#: Where files go that come with a message and not by an upload.
FOLDER = "uploads"


class SentPart(Input):
    """A part in the result of a client's tool: an upload by its id, or its content."""

    type: str = ""
    name: str = ""
    media_type: str = ""
    file_id: str = ""
    url: str = ""
    data: str = ""


def take_attachment(session: Session, given: Attachment) -> dict[str, Any]:
    """Return an attachment as it is stored in the log, with its part if a model could read it.

    Raise Invalid, with the reason, if it is broken or larger than a model could read.
    """
    if given.path:
        return _of_file(session, given)
    if given.file_id:
        part, content = find_part(session.workspace_id, given.file_id, given.name)
    else:
        content = _decoded(given)
        part = store_part(session.workspace_id, content, given.name)
    name = PurePosixPath(given.name).name or _default_name(part)
    path = f"{FOLDER}/{part.sha256[:12]}-{name}"
    store_file(session, path, [content])
    return {"path": path, **replace(part, name=name).as_json()}


def _of_file(session: Session, given: Attachment) -> dict[str, Any]:
    stored: dict[str, Any] = {
        "name": given.name,
        "path": given.path,
        "media_type": given.media_type,
    }
    stored = {**stored, "size": given.size}
    try:
        with open_stored(session, given.path) as file:
            head = file.read(SNIFFED)
            if not (media_type := kind_of(head)):
                return stored
            content = head + file.read(most_bytes(media_type) + 1 - len(head))
    except NotFound:
        return stored  # It may come later; the message names it.
    if len(content) > most_bytes(media_type) and media_type == "application/pdf":
        return stored  # Tools can still read it in parts.
    part = store_part(session.workspace_id, content, given.name)
    return {**stored, **part.as_json()}


def take_output(session: Session, output: Any) -> Any:
    """Return the output of a client's tool with what it sent as `parts` stored by hash."""
    parts = output.get("parts") if isinstance(output, dict) else None
    if not isinstance(parts, list):
        return output
    return {**output, "parts": [_taken(session, one) for one in parts[:MOST_PARTS]]}


def _taken(session: Session, sent: object) -> Any:
    given = read_input(SentPart, sent)
    if given.file_id:
        part, _ = find_part(session.workspace_id, given.file_id, given.name)
    else:
        part = store_part(session.workspace_id, _decoded(given), given.name)
    return part.as_json()


def upload_id(session: Session, path: str) -> str | None:
    """Return the id of an uploaded file for attachments, or None if no model could be shown it."""
    try:
        stored = _of_file(session, Attachment(name=PurePosixPath(path).name, path=path))
    except Invalid:
        return None
    return f"{FILE_ID}{stored['sha256']}" if "sha256" in stored else None


def _decoded(given: Attachment | SentPart) -> bytes:
    text = given.data or given.url
    if text.startswith("data:"):
        head, comma, text = text.partition(",")
        if not comma or not head.endswith(";base64"):
            raise Invalid("A data URL must be `data:TYPE;base64,` and the content in base64.")
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid(f"{given.name or 'The attachment'} is not valid base64.") from None


def _default_name(part: Part) -> str:
    return f"{part.type}.{part.media_type.partition('/')[2]}"


# ── What a model is sent ─────────────────────────────────────────────────────────────────────────


def with_contents(
    messages: Sequence[Message], workspace_id: UUID, model: ModelInfo
) -> tuple[Message, ...]:
    """Return the messages with the contents of their parts.

    A part that the model cannot take, that is gone, or for which there is no room is described.
    """
    if not any(message.parts or _result_parts(message) for message in messages):
        return tuple(messages)
    loader = _Loader(workspace_id, model)
    return tuple(loader.filled(message) for message in reversed(messages))[::-1]


def _result_parts(message: Message) -> bool:
    return any(result.parts for result in message.results)


class _Loader:
    """Loads contents, from the newest message on, until the request is full."""

    def __init__(self, workspace_id: UUID, model: ModelInfo) -> None:
        self._workspace_id = workspace_id
        self._model = model
        self._left = MAX_REQUEST_BYTES

    def filled(self, message: Message) -> Message:
        parts, text = self._load(message.parts, message.text)
        results = []
        for result in message.results:
            shown, output = self._load(result.parts, result.output)
            results.append(replace(result, parts=shown, output=output))
        return replace(message, parts=parts, text=text, results=tuple(results))

    def _load(self, parts: Iterable[Part], text: str) -> tuple[tuple[Part, ...], str]:
        """Return the parts that are sent, and the text with descriptions of the others."""
        loaded: list[Part] = []
        for part in parts:
            content = self._content(part)
            if content is None:
                text = f"{text}\n\n{part.description}".strip()
            else:
                loaded.append(replace(part, content=content))
        return tuple(loaded), text

    def _content(self, part: Part) -> bytes | None:
        if not self._model.takes(part.media_type) or part.size > self._left:
            return None
        content = load_content(self._workspace_id, part.sha256)
        self._left -= len(content or b"")
        return content

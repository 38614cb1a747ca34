"""What a step or a workflow returns, and what it raises, as JSON that can be kept."""

from __future__ import annotations

from typing import Any

import orjson

from config.faults import Fault, ResultTooLarge, ResultUnfit, StepFailed

MOST_BYTES = 1024 * 1024
PREVIEW = 300
LONGEST_MESSAGE = 4_000
Body = dict[str, Any]


def encode_result(value: Any, what: str) -> str:
    """The value as JSON, or an error that says why it cannot be kept."""
    try:
        packed = orjson.dumps(value)
    except TypeError as error:
        raise ResultUnfit(f"{what} returned what JSON cannot hold: {error}.") from None
    if len(packed) > MOST_BYTES:
        raise ResultTooLarge(
            f"{what} returned {len(packed):,} bytes; the most is {MOST_BYTES:,}. "
            "Store it elsewhere and return where."
        )
    return packed.decode()


def describe(error: BaseException) -> Body:
    """An exception as it is kept and shown."""
    said = error.detail if isinstance(error, Fault) else str(error)
    if isinstance(error, SystemExit):
        said = f"The code ended the whole program: exit({error.code!r})."
    code = error.code if isinstance(error, Fault) else "error"
    told: Body = {"code": code, "type": type(error).__name__}
    if isinstance(error, StepFailed):
        told |= {"code": error.reason, "step": error.step}
    # PostgreSQL's JSON cannot hold NUL, and half characters cannot be sent at all.
    text = (said or type(error).__name__).encode(errors="replace").decode().replace("\0", "")
    return {**told, "message": text[:LONGEST_MESSAGE]}


def trim_notes(notes: list[Body]) -> list[Body]:
    """Notes that wait together: the newest progress is enough, and pieces of one stream are one."""
    last = max((nth for nth, n in enumerate(notes) if n["type"] == "progress"), default=-1)
    kept: list[Body] = []
    for nth, note in enumerate(notes):
        if note["type"] == "progress" and nth != last:
            continue
        if not (kept and _joined(kept, note)):
            kept.append(note)
    return kept


def _joined(kept: list[Body], note: Body) -> bool:
    """Whether the note goes on where the one before it ends, and was joined to it."""
    before, now = _piece(kept[-1]), _piece(note)
    if not before or not now or before["stream"] != now["stream"]:
        return False
    joined = {**before, "text": before["text"] + now["text"]}
    kept[-1] = {"type": note["type"], "payload": {"message": joined}}
    return True


def _piece(note: Body) -> Body | None:
    told = note["payload"].get("message") if note["type"] == "output" else None
    is_piece = isinstance(told, dict) and {"stream", "text"} <= told.keys()
    return told if is_piece else None

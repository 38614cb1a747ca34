"""Takes away containers that nobody uses: idle ones, those of sessions that are over, lost ones.

The session's files stay. Whatever was used here has a folder of claims, so a machine on which no
container was ever made costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any
from uuid import UUID

import structlog
from django.conf import settings

from config.faults import SandboxReplaced, SandboxUnavailable
from tools_app.sandbox.container.claims import (
    WITHDRAWN,
    claiming_sessions,
    claims_of,
    forget_session,
    last_use,
)
from tools_app.sandbox.container.engine import Engine, connect
from tools_app.sandbox.container.lifecycle import (
    INSTALLATION,
    SESSION,
    end_claims,
    installation_id,
    name_of,
)

log = structlog.get_logger(__name__)


def sweep(sessions: Collection[UUID], living: Collection[UUID]) -> int:
    """Remove what is not needed, and say how many. `living` are the sessions that go on."""
    try:
        return _sweep(connect(), sessions, living)
    except (SandboxUnavailable, SandboxReplaced):
        log.warning("containers_not_swept", exc_info=True)
        return 0


def leave() -> None:
    """Before Switchyard stops: take away every container in which nothing runs."""
    unused = [session_id for session_id in claiming_sessions() if not claims_of(session_id)]
    if not unused:
        return
    try:
        engine = connect()
        for session_id in unused:
            _remove(engine, _boxes(engine, session_id))
    except (SandboxUnavailable, SandboxReplaced):
        log.warning("containers_not_swept", exc_info=True)


def running() -> list[dict[str, Any]]:
    """This installation's containers, as the engine describes them."""
    return connect().labelled({INSTALLATION: installation_id()})


def _sweep(engine: Engine, sessions: Collection[UUID], living: Collection[UUID]) -> int:
    removed = 0
    for session_id in sessions:
        if session_id not in living:
            removed += _remove(engine, _boxes(engine, session_id))
            forget_session(session_id)
            continue
        removed += _end_lost(engine, session_id)
        if _is_idle(session_id):
            removed += _remove(engine, _boxes(engine, session_id))
            if not claims_of(session_id):
                forget_session(session_id)
    known = {str(session_id) for session_id in sessions}
    ours = engine.labelled({INSTALLATION: installation_id()})
    # A claim is written before its container is made: one without has lost its folder.
    lost = [box for box in ours if box["Labels"].get(SESSION) not in known | _named()]
    return removed + _remove(engine, lost)


def _end_lost(engine: Engine, session_id: UUID) -> int:
    """What a worker that died left running: nobody would end it before the session's next run."""
    lost = [c for c in claims_of(session_id) if c.is_dead or c.kind == WITHDRAWN]
    for claim in [c for c in lost if c.kind == "terminal"]:
        engine.remove(name_of(session_id, claim.nonce))
        claim.forget()
    commands = [c for c in lost if c.kind != "terminal"]
    return end_claims(session_id, commands) if commands else 0


def _is_idle(session_id: UUID) -> bool:
    idle_for = time.time() - last_use(session_id)
    return not claims_of(session_id) and idle_for > settings.SANDBOX_IDLE_SECONDS


def _boxes(engine: Engine, session_id: UUID) -> list[dict[str, Any]]:
    return engine.labelled({INSTALLATION: installation_id(), SESSION: str(session_id)})


def _remove(engine: Engine, boxes: list[dict[str, Any]]) -> int:
    return sum(engine.remove(box["Id"]) for box in boxes)


def _named() -> set[str]:
    """Asked again, as a session may have come since the list was read."""
    return {str(session_id) for session_id in claiming_sessions()}

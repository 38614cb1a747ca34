"""Asks a model for a text that no viewer watches: to save, to summarise. Paid for by the run."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import replace

from agents.models_catalog import answer_limit
from agents.provider_keys import provider_for
from agents.providers.base import ModelRequest, TextDelta, Usage
from config.faults import ProviderUnavailable
from sessions_app.purse import paid_call
from sessions_app.turn import Turn
from tenants.off_loop import let_go

PAUSES = (0.5, 2.0)  #: Seconds before each new try.
LONGEST_PAUSE = 10.0


def complete(turn: Turn, provider: str, request: ModelRequest, *, purpose: str) -> str:
    """The model's text. No database connection is held meanwhile."""
    if request.max_tokens is not None:
        most = answer_limit(provider, request.model, request.max_tokens)
        request = replace(request, max_tokens=most)
    for pause in (*PAUSES, None):
        try:
            return _stream(turn, provider, request, purpose)
        except ProviderUnavailable as fault:
            if pause is None:
                raise
            wait = min(fault.retry_after or pause * random.uniform(0.8, 1.2), LONGEST_PAUSE)  # noqa: S311
            turn.sign.event.wait(wait)
            turn.check_time()
    raise AssertionError("the last try returns or raises")


def _stream(turn: Turn, provider: str, request: ModelRequest, purpose: str) -> str:
    source = provider_for(turn.workspace_id, provider)
    with paid_call(turn, provider, request, purpose) as meter:
        let_go()
        stream = source.stream(request)
        with closing(stream):  # type: ignore[type-var]
            for delta in stream:
                turn.check_time()
                if isinstance(delta, TextDelta):
                    meter.text += delta.text
                elif isinstance(delta, Usage):
                    meter.usage = delta
        turn.sign.check()
        if not meter.text.strip():
            raise ProviderUnavailable(f"{request.model} gave an empty answer.")
    return meter.text.strip()

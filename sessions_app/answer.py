"""Asks the model for its next answer: streams it, retries what may pass, falls back while it can."""

from __future__ import annotations

import random
from contextlib import closing
from dataclasses import dataclass, field
from decimal import Decimal
from uuid import UUID

from agents.provider_keys import provider_for
from agents.providers.base import Delta, ModelRequest, TextDelta, TextState, Tick, ToolCall, Usage
from config.faults import ContextOverflow, ProviderFault, ProviderUnavailable
from sessions_app.compaction.cycle import compact, compact_if_full
from sessions_app.context.builder import LEAST_CONVERSATION, Context, build_context
from sessions_app.drafts import DraftWriter, pump
from sessions_app.models import ContextSnapshot
from sessions_app.outside import note_outside
from sessions_app.points import reached
from sessions_app.purse import paid_call
from sessions_app.turn import Turn
from tenants.ids import uuid7
from tenants.off_loop import let_go

PAUSES = (0.5, 1.0, 2.0, 4.0)  #: Seconds before each new try of the same model.
LONGEST_PAUSE = 30.0


@dataclass(kw_only=True)
class Answer:
    """What a model said. Its id was known to viewers before its text."""

    provider: str
    model: str
    event_id: UUID = field(default_factory=uuid7)
    text: str = ""
    provider_state: str | None = None
    calls: list[ToolCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    cost: Decimal = Decimal(0)
    emitted: bool = False
    #: It is in the log already.
    stored: bool = False

    def take(self, delta: Delta, draft: DraftWriter) -> None:
        match delta:
            case TextDelta(text=text):
                self.text += text
                self.emitted = True
                draft.add(text)
            case TextState(provider_state=state):
                self.provider_state = state
            case ToolCall():
                self.calls.append(delta)
            case Usage():
                self.usage = delta
            case Tick():
                pass


def ask_model(turn: Turn) -> Answer:
    """The model's next answer, from the first model of the agent's list that gives one."""
    candidates = [(turn.version.provider, turn.version.model)]
    candidates += [(f["provider"], f["model"]) for f in turn.version.fallbacks]
    for nth, (provider, model) in enumerate(candidates):
        try:
            return _ask_patiently(turn, provider, model)
        except ContextOverflow:
            raise
        except ProviderFault as fault:
            last = nth == len(candidates) - 1
            # Another model must not continue what people have seen, nor repeat what tools did.
            if last or turn.spent.tool_calls or fault.emitted:
                raise
    raise AssertionError("an agent has at least one model")


def _ask_patiently(turn: Turn, provider: str, model: str) -> Answer:
    """Ask, and once more with less, if the model finds the request too long."""
    context = _context(turn, provider, model)
    try:
        return _ask(turn, context.request, provider)
    except ContextOverflow as fault:
        smaller = None if fault.emitted else _smaller(turn, context)
        if smaller is None:
            raise
        return _ask(turn, smaller.request, provider)


def _context(turn: Turn, provider: str, model: str) -> Context:
    """What the model is given now, compacted first when it is nearly full."""
    context = _build(turn, provider, model)
    if compact_if_full(turn, context):
        context = _build(turn, provider, model)
    return context


def _build(turn: Turn, provider: str, model: str) -> Context:
    context = build_context(
        turn.subject, provider, model, memories=turn.memories, ceiling=turn.ceiling
    )
    if turn.memories is None and context.memories.has_untrusted:
        note_outside(turn.session_id)
    turn.memories = context.memories
    return context


def _smaller(turn: Turn, context: Context) -> Context | None:
    """The context after an overflow: compacted, and cut to what may fit. None: it is no smaller."""
    compact(turn, context.provider, context.model, ContextSnapshot.Trigger.OVERFLOW)
    spoken = max(
        LEAST_CONVERSATION + 2 * context.room.summary, (context.tokens - context.fixed) // 2
    )
    turn.ceiling = context.fixed + spoken
    try:
        smaller = _build(turn, context.provider, context.model)
        return smaller if smaller.tokens < context.tokens else None
    except ContextOverflow:
        return None


def _ask(turn: Turn, request: ModelRequest, provider: str) -> Answer:
    model = request.model
    let_go()
    for pause in (*PAUSES, None):
        answer = Answer(provider=provider, model=model)
        try:
            _stream(turn, request, answer)
        except ProviderUnavailable as fault:
            if pause is None or answer.emitted:
                fault.emitted = answer.emitted
                raise
            wait = min(fault.retry_after or pause * random.uniform(0.8, 1.2), LONGEST_PAUSE)  # noqa: S311
            turn.sign.event.wait(wait)
            turn.check_bounds()
        except ProviderFault as fault:
            fault.emitted = answer.emitted
            raise
        else:
            return answer
    raise AssertionError("the last try returns or raises")


def _stream(turn: Turn, request: ModelRequest, answer: Answer) -> None:
    """Take the answer as it comes. No database connection is held meanwhile."""
    source = provider_for(turn.workspace_id, answer.provider)
    with paid_call(turn, answer.provider, request) as meter:
        let_go()
        reached("before_model_call")
        stream = source.stream(request)
        with pump().writing(turn.claim, answer.event_id) as draft, closing(stream):  # type: ignore[type-var]
            for delta in stream:
                turn.check_time()
                answer.take(delta, draft)
                meter.text, meter.usage = answer.text, answer.usage
        turn.sign.check()
        if not answer.text and not answer.calls:
            raise ProviderUnavailable(f"{answer.model} gave an empty answer.")
    answer.usage, answer.cost = meter.counted, meter.cost
    reached("after_model_call")

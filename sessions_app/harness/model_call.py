"""The one way to call a model: reserve the budget, stream the answer, settle what it cost, retry.

Answers (`answer.py`) and texts that no viewer watches (`complete`, for summaries, saving and
judging) both go through `call_model`. A call whose worker is killed is charged its whole
reservation by the supervisor.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from agents.exceptions import ProviderFault, ProviderUnavailable
from agents.model_catalog import answer_limit, price_call, worst_case
from agents.providers.answer_checks import checked
from agents.providers.base import (
    Delta,
    ModelRequest,
    Provider,
    TextDelta,
    TextState,
    ThinkingDelta,
    ThinkingState,
    Tick,
    ToolCall,
    Truncated,
    Usage,
    estimate_request,
    estimate_tokens,
)
from agents.providers.keys import provider_for
from core.db import for_each, release_connection
from core.ids import uuid7
from sessions_app.harness.crash_points import crash_point
from sessions_app.harness.turn import Turn
from sessions_app.live.drafts import AnswerDraft, draft_publisher
from sessions_app.log.sql import retry_on_disconnect
from sessions_app.log.writer import NewEvent
from sessions_app.models import Session, SessionEvent
from tenants.billing.spending import Charge, PlannedCall, Spender, reserve, settle
from tenants.models import ModelCall

State, Purpose = ModelCall.State, ModelCall.Purpose

PAUSES = (0.5, 2.0)  #: Seconds before each retry of `complete`.
LONGEST_PAUSE = 10.0
#: A call whose worker lost its lane has this long to settle by itself.
GRACE = timedelta(seconds=30)
#: Settles a call like `purse_settle`, and adds it to what its session has used.
SETTLE = "SELECT session_settle(%s, %s, %s::numeric, %s::bigint, %s::bigint, %s::bigint)"


@dataclass(kw_only=True)
class ModelAnswer:
    """The answer of a model while it is streamed and after. Viewers know its id before its text."""

    provider: str
    model: str
    thinking_id: UUID = field(default_factory=uuid7)
    event_id: UUID = field(default_factory=uuid7)
    thinking: str = ""
    thinking_state: str | None = None
    text: str = ""
    provider_state: str | None = None
    calls: list[ToolCall] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    cost: Decimal = Decimal(0)
    #: Whether a viewer has seen any of it.
    emitted: bool = False
    #: Whether it ended at its token limit.
    truncated: bool = False
    #: Whether it is in the log already.
    stored: bool = False
    #: What it says, if the run has a response schema.
    data: Any = None
    #: Whether it does not fit that schema.
    is_misshapen: bool = False

    def add(self, delta: Delta, draft: AnswerDraft | None) -> None:
        match delta:
            case TextDelta(text=text):
                self.text += text
                if draft:
                    self.emitted = True
                    draft.text.add(text)
            case ThinkingDelta() | ThinkingState():
                self._add_thinking(delta, draft)
            case TextState(provider_state=state):
                self.provider_state = state
            case ToolCall():
                self.calls.append(delta)
            case Usage():
                self.usage = delta
            case Truncated():
                self.truncated = True
            case Tick():
                pass

    def _add_thinking(
        self, delta: ThinkingDelta | ThinkingState, draft: AnswerDraft | None
    ) -> None:
        if isinstance(delta, ThinkingState):
            self.thinking_state = delta.provider_state
            return
        self.thinking += delta.text
        if draft:
            draft.thinking.add(delta.text)

    def events(self) -> list[NewEvent]:
        """Return the thinking and the text of a finished answer as events, if it has them."""
        events = [self.thinking_event()] if self.thinking or self.thinking_state else []
        return [*events, self.event()] if self.text else events

    def thinking_event(self) -> NewEvent:
        payload: dict[str, Any] = {"text": self.thinking, "model": self.model}
        if self.thinking_state:
            payload["provider_state"] = self.thinking_state
        return NewEvent(id=self.thinking_id, type=SessionEvent.Type.AGENT_THINKING, payload=payload)

    def event(self, *, partial: bool = False) -> NewEvent:
        """Return the text as an event, under the id that viewers already know.

        `partial` marks text whose stream broke off.
        """
        usage = {
            "input_tokens": self.usage.input_tokens,
            "output_tokens": self.usage.output_tokens,
            "cached_tokens": self.usage.cache_read_tokens,
            "cost": str(self.cost),
        }
        payload: dict[str, Any] = {"text": self.text, "model": self.model, "usage": usage}
        if self.provider_state:
            payload["provider_state"] = self.provider_state
        if self.truncated:
            payload["truncated"] = True
        if partial and not self.is_misshapen:
            payload["partial"] = True
        return NewEvent(id=self.event_id, type=SessionEvent.Type.AGENT_MESSAGE, payload=payload)


@dataclass(frozen=True, kw_only=True)
class CallOptions:
    """How a model is called: who sees the text, what it is charged as, and how it is retried."""

    purpose: str
    #: Seconds before each retry, and the most that a provider may ask to wait.
    pauses: Sequence[float]
    longest_pause: float
    #: Raises if the run may not go on after a pause.
    check: Callable[[], None]
    #: Whether viewers see the text as it is streamed.
    is_watched: bool = False


def call_model(
    turn: Turn, source: Provider, provider: str, request: ModelRequest, options: CallOptions
) -> ModelAnswer:
    """Return the model's answer, retrying while the provider is unavailable.

    Every attempt has an event id of its own, so its draft replaces that of the last one. Text that
    viewers saw of an answer that was given up is left in `turn.unfinished`.
    """
    for pause in (*options.pauses, None):
        answer = ModelAnswer(provider=provider, model=request.model)
        try:
            _stream(turn, source, request, answer, options)
        except ProviderUnavailable as fault:
            if pause is None:
                fault.emitted = turn.unfinished is not None
                raise
            wait = fault.retry_after or pause * random.uniform(0.8, 1.2)  # noqa: S311
            release_connection()
            turn.stop_signal.event.wait(min(wait, options.longest_pause))
            options.check()
        except ProviderFault as fault:
            fault.emitted = turn.unfinished is not None
            raise
        else:
            if options.is_watched:
                turn.unfinished = None
            return answer
    raise AssertionError("the last attempt returns or raises")


def _stream(
    turn: Turn, source: Provider, request: ModelRequest, answer: ModelAnswer, options: CallOptions
) -> None:
    """Read the answer as it comes. No database connection is held meanwhile."""
    with _paid(turn, request, answer, options.purpose):
        release_connection()
        if options.is_watched:
            crash_point("before_model_call")
        stream = source.stream(request)
        with _draft(turn, answer, options) as draft, closing(stream):  # type: ignore[type-var]
            try:
                for delta in checked(stream, request.model):
                    turn.check_time()
                    answer.add(delta, draft)
            finally:
                if answer.emitted:
                    turn.unfinished = answer
        turn.stop_signal.check()
        if _is_empty(answer, options):
            raise ProviderUnavailable(f"{answer.model} gave an empty answer.")


def _draft(
    turn: Turn, answer: ModelAnswer, options: CallOptions
) -> AbstractContextManager[AnswerDraft | None]:
    if not options.is_watched:
        return nullcontext(None)
    return draft_publisher().open_draft(turn.claim, answer.event_id, answer.thinking_id)


def _is_empty(answer: ModelAnswer, options: CallOptions) -> bool:
    if options.is_watched:
        return not answer.text and not answer.calls
    return not answer.text.strip()


def complete(turn: Turn, provider: str, request: ModelRequest, *, purpose: str) -> str:
    """Return a text that no viewer watches. The run pays for it."""
    if request.max_tokens is not None:
        most = answer_limit(
            provider, request.model, request.max_tokens, workspace_id=turn.workspace_id
        )
        request = replace(request, max_tokens=most)
    options = CallOptions(
        purpose=purpose, pauses=PAUSES, longest_pause=LONGEST_PAUSE, check=turn.check_time
    )
    source = provider_for(turn.workspace_id, provider)
    return call_model(turn, source, provider, request, options).text.strip()


@contextmanager
def _paid(turn: Turn, request: ModelRequest, answer: ModelAnswer, purpose: str) -> Iterator[None]:
    """Reserve the worst case, let the caller read the answer, and settle what it used.

    The charge of an answer is left to the commit that stores the answer. A call that fails before
    it yields anything costs nothing.
    """
    settle_unpaid(turn)
    call = PlannedCall(
        spender=spender_for(turn),
        provider=answer.provider,
        model=request.model,
        worst_case=worst_case(turn.workspace_id, answer.provider, request),
        purpose=purpose,
    )
    retry_on_disconnect(lambda again: _reserve(call, again))
    outcome = State.ESTIMATED
    try:
        yield
        outcome = State.SETTLED
    except ProviderFault:
        used_anything = answer.text or answer.thinking or answer.usage.output_tokens
        outcome = State.ESTIMATED if used_anything else State.FAILED
        raise
    finally:
        _settle(turn, call, request, answer, outcome)


def spender_for(turn: Turn) -> Spender:
    """Return who pays for what this run uses."""
    return Spender(
        workspace_id=turn.workspace_id,
        agent_id=turn.agent_id,
        session_id=turn.session_id,
        ancestors=tuple(turn.ancestors),
        run_id=turn.claim.run_id,
        user_id=turn.sender_id,
        key_id=turn.key_id,
        epoch=turn.claim.epoch,
    )


def _reserve(call: PlannedCall, again: bool) -> None:
    if again and ModelCall.objects.filter(pk=call.id).exists():
        return
    reserve(call)


def _settle(
    turn: Turn, call: PlannedCall, request: ModelRequest, answer: ModelAnswer, outcome: str
) -> None:
    charge = Charge(call_id=call.id, outcome=outcome)
    if outcome != State.FAILED:
        usage = answer.usage = _counted(request, answer)
        answer.cost = price_call(turn.workspace_id, call.provider, call.model, usage)
        charge = Charge(
            call_id=call.id,
            outcome=outcome,
            cost=answer.cost,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cache_read_tokens,
        )
        count = turn.spent.add if call.purpose == Purpose.ANSWER else turn.spent.add_aside
        count(usage, answer.cost)
    turn.unpaid = charge
    if outcome != State.SETTLED or call.purpose != Purpose.ANSWER:
        settle_unpaid(turn)


def settle_unpaid(turn: Turn) -> None:
    """Settle the last model call of a turn, unless the commit that stored its answer did so."""
    charge, turn.unpaid = turn.unpaid, None
    if charge:
        retry_on_disconnect(lambda again: settle_call(charge))


def settle_call(charge: Charge) -> bool:
    """Charge a call, and add it to what its session has used. False if it was settled before."""
    return settle(charge, by=SETTLE)


def _counted(request: ModelRequest, answer: ModelAnswer) -> Usage:
    """Return the usage that the provider reported, or else an estimate."""
    if answer.usage.input_tokens or answer.usage.output_tokens:
        return answer.usage
    written = estimate_tokens(answer.thinking) + estimate_tokens(answer.text)
    return Usage(input_tokens=estimate_request(request), output_tokens=written)


def charge_lost_calls() -> int:
    """Charge calls of killed workers their reservations, and return how many there were."""
    moved_on = Session.objects.filter(
        Q(lease_owner=None)
        | Q(lane_epoch__lt=OuterRef("epoch"))
        | Q(lane_epoch__gt=OuterRef("epoch")),
        pk=OuterRef("session_id"),
    )
    reserved = ModelCall.objects.filter(state=State.RESERVED)
    reserved.filter(Exists(moved_on), lost_at=None).update(lost_at=Now())
    overdue = reserved.filter(lost_at__lt=Now() - GRACE)
    # One commit each, because the holder of a purse must not wait for a session.
    return len(for_each(list(overdue.values_list("pk", "reserved")), _charge_lost))


def _charge_lost(call: tuple[UUID, Decimal]) -> bool:
    call_id, reserved = call
    return settle_call(Charge(call_id=call_id, outcome=State.ESTIMATED, cost=reserved))

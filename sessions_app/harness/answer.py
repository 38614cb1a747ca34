"""Gets the model's next answer: builds the context, compacts it when full, and falls back to the next model."""

from __future__ import annotations

from agents.exceptions import ContextOverflow, ProviderFault
from agents.providers.base import ModelRequest
from agents.providers.keys import provider_for
from sessions_app.context.builder import MIN_CONVERSATION, Context, build_context
from sessions_app.context.compaction.cycle import compact, compact_if_full
from sessions_app.context.taint import mark_tainted
from sessions_app.harness.crash_points import crash_point
from sessions_app.harness.model_call import CallOptions, ModelAnswer, call_model
from sessions_app.harness.turn import Turn
from sessions_app.models import ContextSnapshot
from tenants.models import ModelCall

PAUSES = (0.5, 1.0, 2.0, 4.0)  #: Seconds before each retry of the same model.
LONGEST_PAUSE = 30.0


def ask_model(turn: Turn) -> ModelAnswer:
    """Return the answer of the first model in the agent's list that gives one."""
    candidates = [(turn.version.provider, turn.version.model)]
    candidates += [(fallback["provider"], fallback["model"]) for fallback in turn.version.fallbacks]
    for nth, (provider, model) in enumerate(candidates):
        try:
            return _ask(turn, provider, model)
        except ContextOverflow:
            raise
        except ProviderFault as fault:
            last = nth == len(candidates) - 1
            # Another model must not continue text that viewers saw, or repeat what tools did.
            if last or turn.spent.tool_calls or fault.emitted:
                raise
    raise AssertionError("an agent has at least one model")


def _ask(turn: Turn, provider: str, model: str) -> ModelAnswer:
    """Ask once, and a second time with a smaller context if the model finds the request too long."""
    context = _context(turn, provider, model)
    try:
        return _call(turn, context.request, provider)
    except ContextOverflow as fault:
        smaller = None if fault.emitted else _smaller(turn, context)
        if smaller is None:
            raise
        return _call(turn, smaller.request, provider)


def _context(turn: Turn, provider: str, model: str) -> Context:
    """Build the context, compacting it first if it is nearly full."""
    context = _build(turn, provider, model)
    if compact_if_full(turn, context):
        context = _build(turn, provider, model)
    return context


def _build(turn: Turn, provider: str, model: str) -> Context:
    context = build_context(
        turn.inputs, provider, model, memories=turn.memories, ceiling=turn.ceiling
    )
    if turn.memories is None and context.memories.has_untrusted:
        mark_tainted(turn.session_id)
    turn.memories = context.memories
    return context


def _smaller(turn: Turn, context: Context) -> Context | None:
    """Return a compacted and shortened context after an overflow, or None if it is no smaller."""
    compact(turn, context.provider, context.model, ContextSnapshot.Trigger.OVERFLOW)
    conversation = max(
        MIN_CONVERSATION + 2 * context.budget.summary, (context.tokens - context.fixed) // 2
    )
    turn.ceiling = context.fixed + conversation
    try:
        smaller = _build(turn, context.provider, context.model)
        return smaller if smaller.tokens < context.tokens else None
    except ContextOverflow:
        return None


def _call(turn: Turn, request: ModelRequest, provider: str) -> ModelAnswer:
    options = CallOptions(
        purpose=ModelCall.Purpose.ANSWER,
        pauses=PAUSES,
        longest_pause=LONGEST_PAUSE,
        check=turn.check_bounds,
        is_watched=True,
    )
    answer = call_model(turn, provider_for(turn.workspace_id, provider), provider, request, options)
    crash_point("after_model_call")
    return answer

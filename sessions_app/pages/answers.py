"""The buttons of a chat, for browsers without a script: stop, allow or deny, try again, take back."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from config.faults import Conflict, Invalid, NotFound, NothingToAnswer, SessionEnded
from sessions_app.doors import accept_event, find_session
from sessions_app.models import Run, Session, SessionEvent
from sessions_app.pages.forms import AnswerForm
from sessions_app.queue import remove_run
from sessions_app.sessions import retry_run
from tenants.authentication import principal_of

E = SessionEvent.Type


def _back(request: HttpRequest, session_id: UUID, act: Callable[[], object]) -> HttpResponse:
    """Do it and show the conversation, with what is in the way if something is."""
    try:
        act()
    except (Conflict, Invalid, NotFound, NothingToAnswer, SessionEnded) as fault:
        messages.error(request, fault.detail)
    return redirect("chat_session", session_id)


@require_POST
def chat_stop(request: HttpRequest, session_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    find_session(principal, session_id, "run")
    accept_event(principal, session_id, type=E.USER_INTERRUPT, payload={})
    return redirect("chat_session", session_id)


@require_POST
def chat_answer(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Let a waiting call run, perhaps with other arguments, or refuse it."""
    principal = principal_of(request)
    find_session(principal, session_id, "run")
    form = AnswerForm(request.POST)

    def answer() -> None:
        if not form.is_valid():
            raise Invalid(str(next(iter(form.errors.values()))[0]))
        accept_event(
            principal, session_id, type=E.USER_TOOL_CONFIRMATION, payload=form.cleaned_data
        )

    return _back(request, session_id, answer)


@require_POST
def chat_retry(request: HttpRequest, session_id: UUID) -> HttpResponse:
    session = find_session(principal_of(request), session_id, "run")
    return _back(request, session_id, lambda: retry_run(_run(request, session)))


@require_POST
def chat_withdraw(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Take a message back that no run has taken yet."""
    principal = principal_of(request)
    session = find_session(principal, session_id, "run")
    author_id = principal.user_id
    return _back(
        request, session_id, lambda: remove_run(session, _run(request, session).pk, author_id)
    )


def _run(request: HttpRequest, session: Session) -> Run:
    try:
        run_id = UUID(request.POST.get("run", ""))
    except ValueError:
        raise Invalid("The form names no run.") from None
    run = Run.objects.filter(session=session, pk=run_id).first()
    if run is None:
        raise NotFound
    return run

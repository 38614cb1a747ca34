"""The outcome tab of a session's page: the form and the grader's verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from agents.model_catalog import known_models
from core.validation import read_input, submit_form
from sessions_app.models import Session, SessionEvent
from sessions_app.outcomes.criteria import DEFAULT_RETURNS, GRADERS, MAX_RETURNS, Outcome
from sessions_app.pages.labels import describe_verdict
from sessions_app.pages.session import render_tab
from sessions_app.sessions import change_session, find_session
from tenants.authentication import principal_of

MAX_VERDICTS = 20
LAMPS = {"met": "is-done", "not_met": "is-failed"}


class OutcomeForm(forms.Form):
    statement = forms.CharField(
        label="Goal of this session", max_length=4_000, widget=forms.Textarea(attrs={"rows": 3})
    )
    criteria = forms.CharField(
        label="Criteria",
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="One per line. The grader judges each criterion separately.",
    )
    max_returns = forms.IntegerField(
        label="Maximum returns",
        min_value=0,
        max_value=MAX_RETURNS,
        initial=DEFAULT_RETURNS,
        help_text="How often an answer is sent back in one turn. 0 only judges it.",
    )
    grader = forms.ChoiceField(
        label="Judged by",
        required=False,
        help_text="A different model than the agent's own notices more.",
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        names = [f"{model.provider}/{model.name}" for model in known_models()]
        names += [f"{name}/" for name in GRADERS]
        current = self.initial.get("grader")
        if current and current not in names:
            names = [current, *names]
        self.fields["grader"].choices = [  # type: ignore[attr-defined]
            ("", "The agent's own model"),
            *((name, name.rstrip("/")) for name in names),
        ]

    def outcome(self) -> dict[str, Any]:
        """Return the validated outcome, or raise an error that names the field."""
        fields = {**self.cleaned_data, "grader": None}
        fields["criteria"] = [line for line in fields["criteria"].splitlines() if line.strip()]
        if name := self.cleaned_data["grader"]:
            provider, _, model = name.partition("/")
            fields["grader"] = {"provider": provider, "model": model}
        return read_input(Outcome, fields).model_dump(mode="json")


@dataclass(frozen=True, kw_only=True)
class VerdictRow:
    event: SessionEvent
    lamp: str
    words: str
    criteria: list[dict[str, Any]]


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def session_outcome(request: HttpRequest, session_id: UUID) -> HttpResponse:
    principal = principal_of(request)
    session = find_session(principal, session_id, "run" if request.method == "POST" else "read")
    if "remove" in request.POST:
        change_session(session, outcome=None)
        messages.success(request, "Outcome removed.")
        return redirect("session_outcome", session.pk)
    form = OutcomeForm(request.POST or None, initial=_initial(session))

    def save() -> Session:
        change_session(session, outcome=form.outcome())
        return session

    if submit_form(form, save):
        messages.success(request, "Outcome saved. It applies from the next answer on.")
        return redirect("session_outcome", session.pk)
    response = render_tab(
        request,
        principal,
        session,
        "session_outcome",
        form=form,
        verdicts=list(_verdicts(session)),
        may_run=principal.may("run") and session.archived_at is None,
    )
    response.status_code = 400 if form.errors else 200
    return response


def _initial(session: Session) -> dict[str, Any]:
    outcome = session.outcome or {}
    grader = outcome.get("grader")
    return {
        **outcome,
        "criteria": "\n".join(outcome.get("criteria", [])),
        "max_returns": outcome.get("max_returns", DEFAULT_RETURNS),
        "grader": f"{grader['provider']}/{grader['model']}" if grader else "",
    }


def _verdicts(session: Session) -> Iterator[VerdictRow]:
    events = session.events.filter(type=SessionEvent.Type.OUTCOME_JUDGED).order_by("-seq")
    for event in events[:MAX_VERDICTS]:
        yield VerdictRow(
            event=event,
            lamp=LAMPS.get(str(event.payload.get("status")), "is-unknown"),
            words=describe_verdict(event.payload),
            criteria=event.payload.get("criteria") or [],
        )

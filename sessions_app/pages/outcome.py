"""The outcome of a session: stated in a form, with what graders said of it."""

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

from agents.inputs import read_input
from agents.models_catalog import known_models
from agents.pages.carrying_out import carry_out
from sessions_app.doors import find_session
from sessions_app.models import Session, SessionEvent
from sessions_app.outcomes.stated import MOST_RETURNS, USUAL_RETURNS, Outcome
from sessions_app.pages.session import show
from sessions_app.pages.words import verdict_words
from sessions_app.sessions import change_session
from tenants.authentication import principal_of

#: Verdicts that the page shows.
NEWEST = 20
LAMPS = {"met": "is-done", "not_met": "is-failed"}


class OutcomeForm(forms.Form):
    statement = forms.CharField(
        label="What this session has to reach",
        max_length=4_000,
        widget=forms.Textarea(attrs={"rows": 3}),
    )
    criteria = forms.CharField(
        label="Criteria",
        widget=forms.Textarea(attrs={"rows": 4}),
        help_text="One a line. The grader judges each by itself.",
    )
    max_returns = forms.IntegerField(
        label="Send it back at most",
        min_value=0,
        max_value=MOST_RETURNS,
        initial=USUAL_RETURNS,
        help_text="Times in a turn. With 0 it is only judged.",
    )
    grader = forms.ChoiceField(
        label="Judged by",
        required=False,
        help_text="Another model than the agent's own sees more.",
    )

    def __init__(self, *args: Any, **words: Any) -> None:
        super().__init__(*args, **words)
        offered = [f"{one.provider}/{one.name}" for one in known_models()]
        chosen = self.initial.get("grader")
        known = [chosen, *offered] if chosen and chosen not in offered else offered
        self.fields["grader"].choices = [  # type: ignore[attr-defined]
            ("", "The agent's own model"),
            *((name, name) for name in known),
        ]

    def outcome(self) -> dict[str, Any]:
        """As it is said over REST. What is wrong with it names the field."""
        given = {**self.cleaned_data, "grader": None}
        given["criteria"] = [line for line in given["criteria"].splitlines() if line.strip()]
        if named := self.cleaned_data["grader"]:
            provider, _, model = named.partition("/")
            given["grader"] = {"provider": provider, "model": model}
        return read_input(Outcome, given).model_dump(mode="json")


@dataclass(frozen=True, kw_only=True)
class ShownVerdict:
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
        messages.success(request, "Nothing has to be reached any more.")
        return redirect("session_outcome", session.pk)
    form = OutcomeForm(request.POST or None, initial=_initial(session))

    def state() -> Session:
        change_session(session, outcome=form.outcome())
        return session

    if carry_out(form, state):
        messages.success(request, "It is judged from the next answer on.")
        return redirect("session_outcome", session.pk)
    answer = show(
        request,
        principal,
        session,
        "session_outcome",
        form=form,
        verdicts=list(_verdicts(session)),
        may_run=principal.may("run") and session.archived_at is None,
    )
    answer.status_code = 400 if form.errors else 200
    return answer


def _initial(session: Session) -> dict[str, Any]:
    stated = session.outcome or {}
    grader = stated.get("grader")
    return {
        **stated,
        "criteria": "\n".join(stated.get("criteria", [])),
        "max_returns": stated.get("max_returns", USUAL_RETURNS),
        "grader": f"{grader['provider']}/{grader['model']}" if grader else "",
    }


def _verdicts(session: Session) -> Iterator[ShownVerdict]:
    judged = session.events.filter(type=SessionEvent.Type.OUTCOME_JUDGED).order_by("-seq")
    for event in judged[:NEWEST]:
        yield ShownVerdict(
            event=event,
            lamp=LAMPS.get(str(event.payload.get("status")), "is-unknown"),
            words=verdict_words(event.payload),
            criteria=event.payload.get("criteria") or [],
        )

"""What people type into the chat."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from sessions_app.models import Run
from sessions_app.payloads import LONGEST_TEXT

#: What may happen with a message that comes while the agent works, in the words of the page.
MANNERS = [
    (Run.OnBusy.FOLLOWUP, "After this answer"),
    (Run.OnBusy.STEER, "Into this answer"),
    (Run.OnBusy.INTERRUPT, "Stop and send"),
]


class MessageForm(forms.Form):
    text = forms.CharField(
        label="Message",
        max_length=LONGEST_TEXT,
        strip=False,
        error_messages={"required": "Write something first."},
    )
    on_busy = forms.ChoiceField(choices=MANNERS, required=False)
    #: Tells a form that is sent twice from two forms.
    once = forms.UUIDField()

    def clean_text(self) -> str:
        text: str = self.cleaned_data["text"]
        if not text.strip():
            raise ValidationError("Write something first.")
        # A browser sends a line's end as two characters.
        return text.replace("\r\n", "\n")

    def clean_on_busy(self) -> str:
        return self.cleaned_data["on_busy"] or Run.OnBusy.FOLLOWUP


class FirstMessageForm(MessageForm):
    """Says to whom, too."""

    agent = forms.UUIDField()


#: What the buttons of an approval mean: the decision, and what it covers.
ANSWERS = {
    "once": ("allow", "once"),
    "session": ("allow", "session"),
    "always": ("allow", "always"),
    "deny": ("deny", "once"),
}


class DecisionForm(forms.Form):
    """A yes or no, by the button that was pressed, with a note and perhaps other arguments."""

    answer = forms.ChoiceField(choices=[(name, name) for name in ANSWERS], required=False)
    decision = forms.ChoiceField(choices=[("allow", "Allow"), ("deny", "Deny")], required=False)
    note = forms.CharField(max_length=2000, required=False)
    input = forms.CharField(required=False, max_length=1_000_000)

    def clean(self) -> dict[str, Any]:
        said = super().clean() or {}
        pressed, decision = said.pop("answer", ""), said.get("decision", "")
        if not pressed and not decision and not self.errors:
            raise ValidationError("Say whether to allow it.")
        said["decision"], said["scope"] = ANSWERS.get(pressed, (decision, "once"))
        return said

    def clean_input(self) -> dict[str, Any] | None:
        text: str = self.cleaned_data["input"]
        if not text.strip():
            return None
        try:
            read = json.loads(text)
        except ValueError as error:
            raise ValidationError(f"The arguments are not JSON: {error}.") from None
        if not isinstance(read, dict):
            raise ValidationError("The arguments must be a JSON object.")
        return read


class AnswerForm(DecisionForm):
    """The same, to a call of one session."""

    tool_use_id = forms.CharField(max_length=64)

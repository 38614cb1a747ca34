"""What people type about a webhook."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms

from tenants.models import Webhook
from tenants.webhook_input import TYPES

ALL = "*"


class WebhookForm(forms.Form):
    #: By part of the product, as the page shows them.
    GROUPS: ClassVar = TYPES

    url = forms.CharField(
        label="Address",
        max_length=2000,
        help_text="Where events are posted to. It must answer with 2xx within 15 seconds.",
        widget=forms.URLInput(attrs={"placeholder": "https://example.com/hooks/switchyard"}),
    )
    description = forms.CharField(max_length=200, required=False, help_text="For your own memory.")
    everything = forms.BooleanField(label="Everything", required=False)
    events = forms.MultipleChoiceField(
        choices=[(name, name) for names in TYPES.values() for name in names], required=False
    )
    patterns = forms.CharField(
        label="Patterns",
        max_length=1000,
        required=False,
        help_text="More types, separated by spaces; * stands for anything, as in session.*",
    )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        if not (cleaned.get("everything") or cleaned.get("events") or cleaned.get("patterns")):
            self.add_error("events", "Choose what it is told of, or everything.")
        return cleaned

    def wanted(self) -> dict[str, Any]:
        """The fields of the webhook."""
        given = self.cleaned_data
        events = [*given["events"], *given["patterns"].split()]
        return {
            "url": given["url"],
            "description": given["description"],
            "events": [ALL] if given["everything"] else events,
        }

    @classmethod
    def initial_of(cls, webhook: Webhook) -> dict[str, Any]:
        known = {name for names in TYPES.values() for name in names}
        return {
            "url": webhook.url,
            "description": webhook.description,
            "everything": ALL in webhook.events,
            "events": [one for one in webhook.events if one in known],
            "patterns": " ".join(one for one in webhook.events if one not in {*known, ALL}),
        }

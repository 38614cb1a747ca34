"""Pages of model providers: their keys, and whether they work."""

from __future__ import annotations

import re
from dataclasses import dataclass
from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from agents.definitions import DEFAULT_MODELS
from agents.exceptions import ProviderNotConfigured
from agents.model_catalog import known_models
from agents.providers.keys import Source, Status, check, delete_key, save_key, statuses
from agents.providers.registry import PROVIDERS
from core.exceptions import NotFound
from core.validation import submit_form
from tenants.access import Principal
from tenants.authentication import authorised

#: Providers that may be servers of the workspace's own.
OWN_SERVERS = {"openai"}
DESCRIPTIONS = {
    "gemini": "Google's models. Get a key in Google AI Studio.",
    "openai": "OpenAI, or any compatible server: Ollama, vLLM, llama.cpp, OpenRouter.",
    "demo": "Understands a few phrases and calls real tools. Needs no key and no network.",
}
SHOWN_MODELS = 4


class KeyForm(forms.Form):
    """The form of a key, which is only ever written: the page never shows one."""

    api_key = forms.CharField(
        label="Key",
        required=False,
        max_length=4_096,
        widget=forms.PasswordInput(
            attrs={"autocomplete": "off", "spellcheck": "false"}, render_value=False
        ),
    )
    base_url = forms.CharField(
        label="Address",
        required=False,
        max_length=200,
        widget=forms.URLInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
        help_text="Leave empty for OpenAI. Key and address are replaced together.",
    )

    def __init__(
        self, name: str, data: QueryDict | None = None, initial: dict[str, str] | None = None
    ) -> None:
        # The page has several of these forms.
        super().__init__(data, initial=initial, auto_id=f"{name}_%s")
        if name not in OWN_SERVERS:
            del self.fields["base_url"]
            self.fields["api_key"].required = True


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One provider as the page shows it."""

    status: Status
    words: str
    models: list[str]
    more_models: int
    form: KeyForm
    state: str
    lamp: str


@require_safe
def providers(request: HttpRequest) -> HttpResponse:
    return page(request)


def page(request: HttpRequest, *, wrong: KeyForm | None = None, about: str = "") -> HttpResponse:
    """Render all providers; an invalid form comes back with its errors."""
    principal, workspace_id = authorised(request, "read")
    panels = [
        panel(status, wrong if wrong and name == about else None)
        for name, status in statuses(workspace_id).items()
    ]
    context = {"panels": panels, "may_admin": principal.may("admin")}
    return render(request, "pages/providers/providers.html", context, status=400 if wrong else 200)


def panel(status: Status, wrong: KeyForm | None) -> Panel:
    named = models_of(status.provider) if status.needs_key else []
    state, lamp = state_of(status)
    address = status.key.base_url if status.key else ""
    return Panel(
        status=status,
        words=DESCRIPTIONS.get(status.provider, ""),
        models=named[:SHOWN_MODELS],
        more_models=max(0, len(named) - SHOWN_MODELS),
        form=wrong or KeyForm(status.provider, initial={"base_url": address}),
        state=state,
        lamp=lamp,
    )


def models_of(provider: str) -> list[str]:
    """Return the known models: the default first, then by version, highest first."""
    names = [model.name for model in known_models() if model.provider == provider]
    default = DEFAULT_MODELS.get(provider)
    return sorted(names, key=lambda name: (name == default, _number(name)), reverse=True)


def _number(name: str) -> float:
    found = re.search(r"\d+(\.\d+)?", name)
    return float(found[0]) if found else 0.0


def state_of(status: Status) -> tuple[str, str]:
    """Return a label for the source of the key, and the class of its lamp."""
    if status.key and status.key.check_error:
        return "Does not work", "is-failed"
    match status.source:
        case Source.WORKSPACE:
            return "Key set", "is-done"
        case Source.ENVIRONMENT:
            return "From the environment", "is-done"
        case Source.BUILT_IN:
            return "Built in", "is-done"
        case Source.NONE:
            return "Not set", ""


def authorised_for(request: HttpRequest, name: str) -> tuple[Principal, UUID]:
    """Return the admin who acts and their workspace. Raise NotFound for an unknown provider."""
    principal, workspace_id = authorised(request, "admin")
    if name not in PROVIDERS:
        raise NotFound
    return principal, workspace_id


@sensitive_post_parameters("api_key")
@require_POST
def provider_save(request: HttpRequest, name: str) -> HttpResponse:
    """Set or replace the key, and test it."""
    principal, workspace_id = authorised_for(request, name)
    form = KeyForm(name, request.POST)
    saved = submit_form(
        form,
        lambda: save_key(
            workspace_id=workspace_id, provider=name, by=principal.user, **form.cleaned_data
        ),
    )
    if saved is None:
        return page(request, wrong=form, about=name)
    report_test(request, workspace_id, name, saved=True)
    return redirect("providers")


@require_POST
def provider_test(request: HttpRequest, name: str) -> HttpResponse:
    _, workspace_id = authorised_for(request, name)
    report_test(request, workspace_id, name)
    return redirect("providers")


def report_test(
    request: HttpRequest, workspace_id: UUID, name: str, *, saved: bool = False
) -> None:
    """Make one cheap call and show the result."""
    label = PROVIDERS[name].label
    subject = f"The key for {label} was saved and" if saved else label
    try:
        result = check(workspace_id=workspace_id, provider=name)
    except ProviderNotConfigured as fault:
        messages.error(request, fault.detail)
        return
    if result.ok:
        messages.success(request, f"{subject} works.")
    else:
        messages.error(request, f"{subject} does not work: {result.error}")


@require_POST
def provider_remove(request: HttpRequest, name: str) -> HttpResponse:
    _, workspace_id = authorised_for(request, name)
    delete_key(workspace_id=workspace_id, provider=name)
    messages.success(request, f"The key for {PROVIDERS[name].label} was deleted.")
    return redirect("providers")

"""Model providers: what this workspace reaches them with, and whether it works."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from agents.agent_input import DEFAULT_MODELS
from agents.credentials import Source
from agents.models_catalog import known_models
from agents.pages.carrying_out import carry_out
from agents.provider_keys import Status, check, delete_key, save_key, statuses
from agents.providers.registry import PROVIDERS
from config.faults import NotFound, ProviderNotConfigured
from tenants.access import Principal, authorise
from tenants.authentication import principal_of

#: Providers of which people may have a server of their own.
OWN_SERVERS = {"openai"}
WORDS = {
    "gemini": "Google's models. A key comes from Google AI Studio.",
    "openai": "OpenAI, or any server that speaks its language: Ollama, vLLM, llama.cpp, OpenRouter.",
    "demo": "Knows a few phrases and calls the real tools. It needs no key and no network.",
}
SHOWN_MODELS = 4


class KeyForm(forms.Form):
    """A key is only ever written: the page never shows one, not even its own."""

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
        help_text="Empty for OpenAI itself. Key and address are replaced together.",
    )

    def __init__(
        self, name: str, data: QueryDict | None = None, initial: dict[str, str] | None = None
    ) -> None:
        # Several of these stand on one page.
        super().__init__(data, initial=initial, auto_id=f"{name}_%s")
        if name not in OWN_SERVERS:
            del self.fields["base_url"]
            self.fields["api_key"].required = True


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One provider, as the page shows it."""

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
    """Everybody may see what works; a form that was refused comes back with what is wrong."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
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
        words=WORDS.get(status.provider, ""),
        models=named[:SHOWN_MODELS],
        more_models=max(0, len(named) - SHOWN_MODELS),
        form=wrong or KeyForm(status.provider, initial={"base_url": address}),
        state=state,
        lamp=lamp,
    )


def models_of(provider: str) -> list[str]:
    """The known models: first what a new agent gets, then by their numbers, the highest first."""
    names = [model.name for model in known_models() if model.provider == provider]
    usual = DEFAULT_MODELS.get(provider)
    return sorted(names, key=lambda name: (name == usual, _number(name)), reverse=True)


def _number(name: str) -> float:
    found = re.search(r"\d+(\.\d+)?", name)
    return float(found[0]) if found else 0.0


def state_of(status: Status) -> tuple[str, str]:
    """Where the key comes from, and the lamp for it."""
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


def known(principal: Principal, name: str) -> str:
    """The provider's name, for whoever may change its key."""
    authorise(principal, "admin")
    if name not in PROVIDERS:
        raise NotFound
    return name


@sensitive_post_parameters("api_key")
@require_POST
def provider_save(request: HttpRequest, name: str) -> HttpResponse:
    """Set or replace the key, then see whether it works."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "admin")
    form = KeyForm(known(principal, name), request.POST)
    saved = carry_out(
        form,
        lambda: save_key(
            workspace_id=workspace_id, provider=name, by=principal.user, **form.cleaned_data
        ),
    )
    if saved is None:
        return page(request, wrong=form, about=name)
    say_result(request, principal, name, saved=True)
    return redirect("providers")


@require_POST
def provider_test(request: HttpRequest, name: str) -> HttpResponse:
    principal = principal_of(request)
    say_result(request, principal, known(principal, name))
    return redirect("providers")


def say_result(
    request: HttpRequest, principal: Principal, name: str, *, saved: bool = False
) -> None:
    """Make one cheap call and say in words how it went."""
    label = PROVIDERS[name].label
    before = f"The key for {label} is saved, and it" if saved else label
    try:
        found = check(workspace_id=authorise(principal, "admin"), provider=name)
    except ProviderNotConfigured as fault:
        messages.error(request, fault.detail)
        return
    if found.ok:
        messages.success(request, f"{before} works.")
    else:
        messages.error(request, f"{before} does not work: {found.error}")


@require_POST
def provider_remove(request: HttpRequest, name: str) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "admin")
    delete_key(workspace_id=workspace_id, provider=known(principal, name))
    messages.success(request, f"The key for {PROVIDERS[name].label} is gone.")
    return redirect("providers")

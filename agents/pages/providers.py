"""Pages of model providers: their keys, and whether they work."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.utils.text import get_text_list
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST, require_safe

from agents.definitions import DEFAULT_MODELS, Choice, chosen_model, use_for_all_agents
from agents.exceptions import ProviderNotConfigured
from agents.model_catalog import (
    ModelInfo,
    known_facts,
    known_models,
    learn_models,
    offered_models,
    set_facts,
)
from agents.models import Agent
from agents.providers.base import ModelFacts
from agents.providers.keys import (
    ModelServer,
    Source,
    Status,
    check,
    delete_key,
    find_local_servers,
    is_personal,
    save_key,
    statuses,
)
from agents.providers.registry import PROVIDERS
from core.db import release_connection
from core.exceptions import Fault, NotFound
from core.validation import read_input, submit_form
from sessions_app.sessions import move_to_newest, outdated_sessions
from tenants.access import Principal
from tenants.authentication import authorised
from tenants.templatetags.money import compact

#: Providers that may be servers of the workspace's own.
OWN_SERVERS = {"openai"}
DESCRIPTIONS = {
    "gemini": "Google's models. Get a key in Google AI Studio.",
    "anthropic": "Anthropic's Claude models. Get a key in the Claude Console.",
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
        widget=forms.URLInput(
            attrs={"autocomplete": "off", "spellcheck": "false", "list": "known-servers"}
        ),
        help_text="Leave empty for OpenAI, or choose a known server. Key and address are replaced "
        "together.",
    )

    def __init__(
        self, name: str, data: QueryDict | None = None, initial: dict[str, str] | None = None
    ) -> None:
        # The page has several of these forms.
        super().__init__(data, initial=initial, auto_id=f"{name}_%s")
        if name not in OWN_SERVERS:
            del self.fields["base_url"]
            self.fields["api_key"].required = True


class UseForm(forms.Form):
    """The model that all agents should use: one that the server lists, or a name if it lists none."""

    model = forms.CharField(label="Model for all agents", max_length=120)
    move_chats = forms.BooleanField(label="Move open chats to it too", required=False, initial=True)

    def __init__(
        self, name: str, models: Sequence[ModelInfo], data: QueryDict | None = None, **options: Any
    ) -> None:
        super().__init__(data, auto_id=f"use_{name}_%s", **options)
        if models:
            choices = [(model.name, describe_model(model)) for model in models]
            self.fields["model"] = forms.ChoiceField(label="Model for all agents", choices=choices)


UNKNOWN = [("", "Not set"), ("true", "Yes"), ("false", "No")]


class FactsForm(forms.Form):
    """What a member knows of a model, or of every model of the server."""

    model = forms.CharField(
        label="Model",
        required=False,
        max_length=120,
        help_text="Leave empty for every model of this server.",
    )
    window = forms.IntegerField(label="Context window", required=False, min_value=1)
    max_output = forms.IntegerField(label="Longest answer", required=False, min_value=1)
    input_price = forms.DecimalField(label="Input price", required=False, min_value=0)
    output_price = forms.DecimalField(label="Output price", required=False, min_value=0)
    tools = forms.ChoiceField(label="Calls tools", required=False, choices=UNKNOWN)
    images = forms.ChoiceField(label="Reads images", required=False, choices=UNKNOWN)
    files = forms.ChoiceField(label="Reads PDFs", required=False, choices=UNKNOWN)  # type: ignore[assignment]
    audio = forms.ChoiceField(label="Hears sound", required=False, choices=UNKNOWN)

    def __init__(self, name: str, data: QueryDict | None = None) -> None:
        super().__init__(data, auto_id=f"facts_{name}_%s")

    @property
    def facts(self) -> dict[str, Any]:
        given = {name: self.cleaned_data[name] for name in ModelFacts.model_fields}
        return {name: value for name, value in given.items() if value not in (None, "")}


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
    #: The model that all agents use, if it is one of this provider.
    default_model: str = ""
    #: Offered once the key works.
    use_form: UseForm | None = None
    facts_form: FactsForm | None = None
    #: What members have set, by the name of a model.
    facts: list[tuple[str, str]] = field(default_factory=list)


@require_safe
def providers(request: HttpRequest) -> HttpResponse:
    return page(request)


def page(request: HttpRequest, *, wrong: KeyForm | None = None, about: str = "") -> HttpResponse:
    """Render all providers; an invalid form comes back with its errors."""
    principal, workspace_id = authorised(request, "read")
    chosen = chosen_model(workspace_id)
    found = statuses(workspace_id)
    panels = [
        panel(workspace_id, status, wrong if wrong and name == about else None, chosen)
        for name, status in found.items()
    ]
    context = {
        "panels": panels,
        "local_servers": local_servers(principal, found),
        "may_admin": principal.may("admin"),
        "operator_keys": settings.OPERATOR_KEYS,
    }
    return render(request, "pages/providers/providers.html", context, status=400 if wrong else 200)


def local_servers(principal: Principal, found: Mapping[str, Status]) -> list[ModelServer]:
    """Return the model servers on this machine to offer: only to the one person who runs it."""
    if found["openai"].key or not principal.may("admin") or not is_personal():
        return []
    release_connection()
    return find_local_servers()


def panel(
    workspace_id: UUID, status: Status, wrong: KeyForm | None, chosen: Choice | None
) -> Panel:
    named = models_of(status.provider) if status.needs_key else []
    default = chosen.model if chosen and chosen.provider == status.provider else ""
    works = status.needs_key and status.configured and not (status.key and status.key.check_error)
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
        default_model=default,
        use_form=use_form(workspace_id, status, default) if works else None,
        facts_form=FactsForm(status.provider) if works else None,
        facts=described_facts(workspace_id, status.provider),
    )


def use_form(
    workspace_id: UUID, status: Status, default: str, data: QueryDict | None = None
) -> UseForm:
    models = offered_models(workspace_id, status.provider, own_server=status.own_server)
    initial = {"model": default or DEFAULT_MODELS[status.provider], "move_chats": True}
    return UseForm(status.provider, models, data, initial=initial)


def describe_model(model: ModelInfo) -> str:
    """Return a model with its window, prices and abilities, as far as they are known."""
    parts = [model.name, f"{compact(model.window)} tokens"]
    if model.input_price is not None and model.output_price is not None:
        parts.append(
            f"${model.input_price.normalize():f} in, ${model.output_price.normalize():f} out"
        )
    if model.tools is False:
        parts.append("no tools")
    return " · ".join(parts)


#: How the page names what can be set.
FACT_LABELS = {
    "window": "window",
    "max_output": "longest answer",
    "input_price": "input $",
    "output_price": "output $",
    "tools": "tools",
    "images": "images",
    "files": "PDFs",
    "audio": "sound",
}


def described_facts(workspace_id: UUID, provider: str) -> list[tuple[str, str]]:
    """Return what members have set: the name of each model, and its facts in words."""
    found = known_facts(workspace_id, provider).set
    return [(name, ", ".join(_fact_words(facts))) for name, facts in sorted(found.items())]


def _fact_words(facts: ModelFacts) -> Iterator[str]:
    for name, value in facts.model_dump(exclude_none=True).items():
        if isinstance(value, bool):
            yield f"{FACT_LABELS[name]} {'yes' if value else 'no'}"
        else:
            yield f"{FACT_LABELS[name]} {value:,}"


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
        with suppress(Fault):
            learn_models(workspace_id, name)
        hint = " Choose a model to use it for all agents." if saved else ""
        messages.success(request, f"{subject} works.{hint}")
    else:
        messages.error(request, f"{subject} does not work: {result.error}")


@require_POST
def provider_remove(request: HttpRequest, name: str) -> HttpResponse:
    _, workspace_id = authorised_for(request, name)
    delete_key(workspace_id=workspace_id, provider=name)
    messages.success(request, f"The key for {PROVIDERS[name].label} was deleted.")
    return redirect("providers")


@require_POST
def provider_use(request: HttpRequest, name: str) -> HttpResponse:
    """Make a model the default of the workspace, and move its agents and chats to it."""
    principal, workspace_id = authorised_for(request, name)
    status = statuses(workspace_id)[name]
    if not status.configured:
        raise ProviderNotConfigured(f"No key is set for {status.label}.")
    form = use_form(workspace_id, status, "", request.POST)
    if not form.is_valid():
        messages.error(request, "Choose one of the models.")
        return redirect("providers")
    choice = Choice(provider=name, model=form.cleaned_data["model"])
    moved = use_for_all_agents(workspace_id, choice, by=principal.user)
    stale = outdated_sessions(moved).count()
    chats = move_to_newest(moved) if form.cleaned_data["move_chats"] else 0
    messages.success(request, describe_move(choice.model, moved, chats, stale - chats))
    return redirect("providers")


def describe_move(model: str, moved: Sequence[Agent], chats: int, left: int) -> str:
    """Say which agents and chats use the model now."""
    names = get_text_list([str(agent) for agent in moved], "and")
    verb = "uses" if len(moved) == 1 else "use"
    words = [
        f"{names} now {verb} {model}." if moved else f"New agents and the builder use {model}."
    ]
    if chats:
        words.append(f"{chats} open chat{pluralize(chats)} moved to it.")
    if left:
        stay = "stays" if left == 1 else "stay"
        words.append(f"{left} open chat{pluralize(left)} {stay} on the model used so far.")
    return " ".join(words)


@require_POST
def provider_facts(request: HttpRequest, name: str) -> HttpResponse:
    """Set what is known of a model, or of every model of the server. An empty form resets it."""
    principal, workspace_id = authorised_for(request, name)
    form = FactsForm(name, request.POST)

    def save() -> str:
        model = str(form.cleaned_data["model"])
        facts = read_input(ModelFacts, form.facts)
        set_facts(workspace_id, name, model, facts, by=principal.user)
        return model or f"every model of {PROVIDERS[name].label}"

    subject = submit_form(form, save)
    if subject is None:
        messages.error(request, str(next(iter(form.errors.values()))[0]))
    else:
        messages.success(request, f"The settings for {subject} were saved.")
    return redirect("providers")

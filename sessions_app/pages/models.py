"""The picker of a chat's model: what each provider's server lists, with windows, prices and abilities."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from agents.definitions import Choice, version_by_id
from agents.model_catalog import ModelInfo, learn_models, offered_models
from agents.providers.keys import statuses
from agents.providers.registry import PROVIDERS
from core.exceptions import Fault
from core.validation import read_input
from sessions_app.sessions import ChatModel, choose_model, find_session
from tenants.access import Principal, authorise
from tenants.authentication import principal_of
from tenants.templatetags.money import compact


@dataclass(frozen=True, kw_only=True)
class ProviderModels:
    """The models of one provider that a chat can use."""

    name: str
    label: str
    #: Whether the workspace has a key for it. Without one, nothing is listed.
    configured: bool
    needs_key: bool
    #: Each model with its window, prices and abilities, as far as they are known.
    models: list[tuple[ModelInfo, str]]


def models_by_provider(workspace_id: UUID) -> list[ProviderModels]:
    """Return the models to choose from: providers that can be used first, the demo last."""
    found = [
        ProviderModels(
            name=name,
            label=status.label,
            configured=status.configured,
            needs_key=status.needs_key,
            models=[
                (model, model_facts(model))
                for model in offered_models(workspace_id, name, own_server=status.own_server)
                if status.configured
            ],
        )
        for name, status in statuses(workspace_id).items()
    ]
    return sorted(found, key=lambda one: (not one.needs_key, not one.configured))


def model_facts(model: ModelInfo) -> str:
    parts = [f"{compact(model.window)} tokens"]
    if model.input_price is not None and model.output_price is not None:
        free = not (model.input_price or model.output_price)
        prices = f"${model.input_price.normalize():f} in, ${model.output_price.normalize():f} out"
        parts.append("free" if free else prices)
    abilities = {"tools": model.tools, "images": model.images}
    parts += [name if has else f"no {name}" for name, has in abilities.items() if has is not None]
    return " · ".join(parts)


def picker_context(
    principal: Principal, workspace_id: UUID, chosen: Choice | None, agents_own: str
) -> dict[str, Any]:
    providers = models_by_provider(workspace_id)
    return {
        "providers": providers,
        "chosen": f"{chosen.provider}/{chosen.model}" if chosen else "",
        "agents_own": agents_own,
        "may_run": principal.may("run"),
    }


@never_cache
@require_safe
def chat_models(request: HttpRequest) -> HttpResponse:
    """Return the picker for a chat that has not begun yet."""
    principal = principal_of(request)
    context = picker_context(principal, authorise(principal, "read"), None, "")
    return render(request, "pages/chat/models_panel.html", context)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def chat_model(request: HttpRequest, session_id: UUID) -> HttpResponse:
    """Show the picker and choose a model. With `panel` only the part for a dialog."""
    principal = principal_of(request)
    is_change = request.method == "POST"
    session = find_session(principal, session_id, "run" if is_change else "read")
    if is_change and "refresh" not in request.POST:
        choose_model(session, parse_choice(request.POST.get("model", "")))
        return redirect("chat_session", session.pk)
    if is_change:
        refresh_models(session.workspace_id)
    chosen = Choice(provider=session.provider, model=session.model) if session.model else None
    own = version_by_id(session.agent_version_id).model
    context = picker_context(principal, session.workspace_id, chosen, own) | {"session": session}
    part = "models_panel" if "panel" in request.GET else "models"
    return render(request, f"pages/chat/{part}.html", context)


def parse_choice(value: str) -> ChatModel:
    """Return the choice that a button of the picker names, as in `openai/gpt-4o`."""
    provider, _, model = value.partition("/")
    return read_input(ChatModel, {"provider": provider, "model": model})


def refresh_models(workspace_id: UUID) -> None:
    """Ask the servers of all providers with a key for their models. One that fails keeps its list."""
    for name, status in statuses(workspace_id).items():
        if status.configured and PROVIDERS[name].needs_key:
            with suppress(Fault):
                learn_models(workspace_id, name)

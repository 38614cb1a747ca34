"""Environments: where agents' commands run, and what this machine can enforce."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from agents.environments import (
    change_environment,
    create_environment,
    delete_environment,
    find_environment,
)
from agents.models import Environment
from agents.pages.carrying_out import carry_out
from config.faults import Conflict
from tenants.access import authorise
from tenants.authentication import principal_of
from tools_app.pages.environment_form import EnvironmentForm, Panel, initial_of
from tools_app.sandbox.report import Ability, abilities


@require_safe
def environments(request: HttpRequest) -> HttpResponse:
    return page(request)


def page(request: HttpRequest, tried: list[Ability] | None = None) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    rows = Environment.objects.for_workspace(workspace_id)
    context = {
        "panels": [Panel(environment=one) for one in rows],
        "may_build": principal.may("build"),
        "tried": tried,
    }
    return render(request, "pages/environments/list.html", context)


@require_POST
def environments_check(request: HttpRequest) -> HttpResponse:
    """Run a command in each kind of sandbox here, and say how it went."""
    authorise(principal_of(request), "admin")
    return page(request, tried=abilities())


@require_http_methods(["GET", "HEAD", "POST"])
def environment_new(request: HttpRequest) -> HttpResponse:
    principal = principal_of(request)
    workspace_id = authorise(principal, "build")
    form = EnvironmentForm(request.POST or None, initial={"kind": "local", "network": "none"})
    made = carry_out(
        form,
        lambda: create_environment(
            workspace_id=workspace_id,
            fields=form.fields_of_environment(),
            created_by=principal.user,
        ),
    )
    if made is None:
        return form_page(request, form)
    messages.success(request, f"{made.name} is made. Choose it in an agent or a session.")
    return redirect("environments")


@require_http_methods(["GET", "HEAD", "POST"])
def environment_edit(request: HttpRequest, environment_id: UUID) -> HttpResponse:
    environment = found(request, environment_id)
    form = EnvironmentForm(request.POST or None, initial=initial_of(environment))
    if not carry_out(
        form, lambda: change_environment(environment, form.fields_of_environment(), replace=True)
    ):
        return form_page(request, form, environment)
    messages.success(request, "It is saved. Running commands keep what they began with.")
    return redirect("environments")


def form_page(
    request: HttpRequest, form: EnvironmentForm, environment: Environment | None = None
) -> HttpResponse:
    context = {"form": form, "environment": environment}
    status = 400 if form.errors else 200
    return render(request, "pages/environments/edit.html", context, status=status)


@require_POST
def environment_delete(request: HttpRequest, environment_id: UUID) -> HttpResponse:
    environment = found(request, environment_id)
    try:
        delete_environment(environment)
    except Conflict as fault:
        messages.error(request, fault.detail)
    else:
        messages.success(request, f"{environment.name} is gone.")
    return redirect("environments")


def found(request: HttpRequest, environment_id: UUID) -> Environment:
    return find_environment(authorise(principal_of(request), "build"), environment_id)

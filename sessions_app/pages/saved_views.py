"""Lists of sessions that people give a name to, for themselves or for the workspace."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.contrib import messages
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from config.faults import Forbidden, NotFound
from sessions_app.models import SavedView
from sessions_app.pages.wanted import Wanted
from tenants.access import authorise
from tenants.authentication import principal_of

MOST_VIEWS = 50


class SavedViewForm(forms.Form):
    name = forms.CharField(max_length=60)
    query = forms.CharField(max_length=1_000, required=False)
    is_shared = forms.BooleanField(required=False)


@require_POST
def view_save(request: HttpRequest) -> HttpResponse:
    """Keep the list as it is now. The same name again changes what it stands for."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    if principal.user is None:
        raise Forbidden("Only a person has views of their own.")
    form = SavedViewForm(request.POST)
    query = Wanted.in_query(QueryDict(request.POST.get("query", "")[:1_000])).query
    if not form.is_valid():
        messages.error(request, "A view needs a name of at most 60 characters.")
        return redirect(f"{reverse('sessions')}?{query}")
    shared = form.cleaned_data["is_shared"] and principal.may("run")
    own = SavedView.objects.for_workspace(workspace_id).filter(person=principal.user)
    name = form.cleaned_data["name"]
    if not own.filter(name=name).exists() and own.count() >= MOST_VIEWS:
        messages.error(request, f"You have {MOST_VIEWS} views already. Take one away first.")
        return redirect(f"{reverse('sessions')}?{query}")
    SavedView.objects.update_or_create(
        workspace_id=workspace_id,
        person=principal.user,
        name=name,
        defaults={"query": query, "is_shared": shared, "created_by": principal.user},
    )
    return redirect(f"{reverse('sessions')}?{query}")


@require_POST
def view_delete(request: HttpRequest, view_id: UUID) -> HttpResponse:
    """Only whoever made it, or an admin when it is shared."""
    principal = principal_of(request)
    workspace_id = authorise(principal, "read")
    person_id = principal.user_id
    views = SavedView.objects.for_workspace(workspace_id).seen_by(person_id)
    view = views.filter(pk=view_id).first()
    if view is None:
        raise NotFound
    if view.person_id != person_id:
        authorise(principal, "admin")
    view.delete()
    return redirect("sessions")

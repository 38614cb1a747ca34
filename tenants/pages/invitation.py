"""The page behind an invitation's link."""

from __future__ import annotations

from django.contrib import auth
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from config.faults import Conflict, Invalid, TooManyAttempts
from tenants.accounts import join
from tenants.authentication import principal_of
from tenants.members import accept_invitation, find_invitation
from tenants.models import User
from tenants.pages.forms import SignUpForm
from tenants.pages.sign_in import MODEL_BACKEND
from tenants.pages.sign_up import count_tries, field_of
from tenants.pages.workspaces import choose


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, token: str) -> HttpResponse:
    """Looking does not use the link up. A newcomer makes an account on the same page."""
    offer = find_invitation(token)
    user = principal_of(request).user
    form = SignUpForm(request.POST or None, initial={"email": offer.email})
    status = 200
    if request.method == "POST":
        if user is None and form.is_valid():
            try:
                user = new_person(request, form)
            except (Conflict, Invalid, TooManyAttempts) as fault:
                form.add_error(field_of(fault), fault.detail)
                status = fault.status
        if user:
            return take_place(request, token, user)
    return render(request, "pages/invitation.html", {"offer": offer, "form": form}, status=status)


def new_person(request: HttpRequest, form: SignUpForm) -> User:
    """An account without a workspace of its own: the invited one is where they go."""
    with count_tries(request):
        user = join(**form.cleaned_data)
    auth.login(request, user, backend=MODEL_BACKEND)
    return user


def take_place(request: HttpRequest, token: str, user: User) -> HttpResponse:
    membership = accept_invitation(token, user)
    choose(request, membership.workspace_id)
    return redirect("home")

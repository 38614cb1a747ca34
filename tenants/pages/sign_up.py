"""A new person, with a workspace of their own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.contrib import auth
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from config.faults import Conflict, Fault, Invalid, TooManyAttempts
from tenants.accounts import sign_up as make_account
from tenants.clients import client_address
from tenants.pages.forms import SignUpForm
from tenants.pages.sign_in import MODEL_BACKEND, onward
from tenants.throttle import check_sign_in, record_failure


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_up(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        return onward(request)
    form = SignUpForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            with count_tries(request):
                user = make_account(**form.cleaned_data)
        except (Conflict, Invalid, TooManyAttempts) as fault:
            form.add_error(field_of(fault), fault.detail)
            status = fault.status
        else:
            auth.login(request, user, backend=MODEL_BACKEND)
            return onward(request)
    return render(
        request,
        "pages/sign_up.html",
        {"form": form, "next": request.GET.get("next", "")},
        status=status,
    )


@contextmanager
def count_tries(request: HttpRequest) -> Iterator[None]:
    """Which addresses have an account can be tried out here, so failed tries are counted."""
    client = client_address(request)
    check_sign_in(f"sign-up from {client}", client)
    try:
        yield
    except Conflict:
        record_failure(f"sign-up from {client}", client)
        raise


def field_of(fault: Fault) -> str | None:
    """Which field of the form a refusal is about."""
    match fault:
        case Conflict():
            return "email"
        case Invalid():
            return "password"
        case _:
            return None

"""Coming in and going out: by password, by link."""

from __future__ import annotations

from django.contrib import auth, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from config.faults import TooManyAttempts
from tenants.accounts import peek_sign_in_link, use_sign_in_link
from tenants.clients import client_address
from tenants.models import User
from tenants.pages.forms import SignInForm
from tenants.throttle import check_sign_in, clear_failures, record_failure

#: One answer for a wrong address and a wrong password, so that addresses cannot be tried out.
WRONG = "The e-mail address or the password is wrong."
MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    if request.user.is_authenticated:
        return onward(request)
    form = SignInForm(request.POST or None)
    status = 200
    if request.method == "POST" and form.is_valid():
        try:
            user = check_credentials(request, **form.cleaned_data)
        except TooManyAttempts as fault:
            form.add_error(None, fault.detail)
            status = fault.status
        else:
            if user:
                auth.login(request, user)
                return onward(request)
            form.add_error(None, WRONG)
    return render(
        request,
        "pages/sign_in.html",
        {"form": form, "next": request.GET.get("next", "")},
        status=status,
    )


def check_credentials(request: HttpRequest, *, email: str, password: str) -> User | None:
    """The person with this address and password. Wrong answers are counted."""
    client = client_address(request)
    check_sign_in(email, client)
    user = auth.authenticate(request, username=email, password=password)
    if not isinstance(user, User):
        record_failure(email, client)
        return None
    clear_failures(email)
    return user


def onward(request: HttpRequest) -> HttpResponseRedirect:
    """To where the person was going, if that is a page of this site; else home."""
    target = request.POST.get("next") or request.GET.get("next") or ""
    is_ours = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return HttpResponseRedirect(target if is_ours else resolve_url("home"))


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    auth.logout(request)
    return redirect("sign_in")


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, token: str) -> HttpResponse:
    """Looking does not use the link up: mail scanners and previews look too."""
    if request.method != "POST":
        person = peek_sign_in_link(token)
        return render(request, "pages/sign_in_link.html", {"person": person})
    user = use_sign_in_link(token)
    auth.login(request, user, backend=MODEL_BACKEND)
    if user.has_usable_password():
        return redirect("home")
    messages.info(request, "You are in. Choose a password to come back without a link.")
    return redirect("password")

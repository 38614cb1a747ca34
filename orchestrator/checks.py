"""Warns of broken plugins, and under `manage.py check --deploy` of unsafe settings of a deployment.

Django's own checks cover DEBUG, the secret key, TLS and cookies. A warning that an operator accepts
is silenced by its id in SILENCED_SYSTEM_CHECKS.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Tags

from agents.providers.registry import PROVIDERS, credentials_from_environment
from core.http import PURPOSES
from core.plugins import plugins
from tools_app.exceptions import SandboxUnavailable
from tools_app.sandbox.host import find_bash, find_bwrap

Apps = Sequence[AppConfig] | None
Messages = list[CheckMessage]
#: Characters of a secret that cannot be guessed.
SHORTEST_SECRET = 16
#: Above this the limit of requests protects nothing.
MOST_REQUESTS_PER_MINUTE = 100_000
_ADDRESS = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s=:,/]+|[0-9a-fA-F:]+):\d{1,5}")


@checks.register(Tags.security)
def check_private_addresses(app_configs: Apps, **options: Any) -> Messages:
    """Refuse an entry that would silently open nothing, or something else than was meant."""
    wrong = []
    for entry in settings.EGRESS_ALLOWED_PRIVATE:
        purpose, is_given, address = entry.rpartition("=")
        if (is_given and purpose not in PURPOSES) or not _ADDRESS.fullmatch(address):
            wrong.append(entry)
    if not wrong:
        return []
    hint = f"Write purpose=host:port, with one of {', '.join(PURPOSES)}."
    return [
        checks.Error(
            f"EGRESS_ALLOWED_PRIVATE: {wrong[0]!r} is not an address.", hint, id=_id("E001")
        )
    ]


@checks.register()
def check_plugins(app_configs: Apps, **options: Any) -> Messages:
    """Warn of a broken plugin. One that PLUGINS names keeps everything from starting before this."""
    hint = "Everything else runs without it. Mend or uninstall it."
    return [
        checks.Warning(
            f"The plugin {plugin.name} was not loaded: {plugin.error}", hint, id=_id("W013")
        )
        for plugin in plugins.values()
        if plugin.error
    ]


@checks.register(Tags.security, deploy=True)
def check_open_addresses(app_configs: Apps, **options: Any) -> Messages:
    if not settings.EGRESS_ALLOWED_PRIVATE:
        return []
    listed = ", ".join(settings.EGRESS_ALLOWED_PRIVATE)
    hint = "Every workspace can reach them. Remove those that not every member may use."
    return [checks.Warning(f"Private addresses are open: {listed}.", hint, id=_id("W001"))]


@checks.register(Tags.security, deploy=True)
def check_salts(app_configs: Apps, **options: Any) -> Messages:
    salts = settings.SALT_KEY
    if not salts or any(len(salt) < SHORTEST_SECRET for salt in salts):
        return [_weak_salt(f"has fewer than {SHORTEST_SECRET} characters")]
    return [_weak_salt("is the SECRET_KEY")] if settings.SECRET_KEY in salts else []


def _weak_salt(why: str) -> checks.Warning:
    hint = "Put a new random string first, and remove the old one once secrets were saved again."
    return checks.Warning(f"One of SALT_KEYS {why}.", hint, id=_id("W002"))


@checks.register(Tags.security, deploy=True)
def check_public_url(app_configs: Apps, **options: Any) -> Messages:
    if urlsplit(settings.PUBLIC_URL).scheme == "https":
        return []
    hint = "Set PUBLIC_URL to the https address of this server: links in mails sign people in."
    return [
        checks.Warning(f"PUBLIC_URL is {settings.PUBLIC_URL}, without TLS.", hint, id=_id("W003"))
    ]


@checks.register(Tags.security, deploy=True)
def check_proxies(app_configs: Apps, **options: Any) -> Messages:
    if settings.PROXY_COUNT or not settings.SECURE_PROXY_SSL_HEADER:
        return []
    hint = "Set PROXY_COUNT to the number of proxies that add to X-Forwarded-For."
    text = "A proxy ends TLS, but PROXY_COUNT is 0: all clients count as one, and share its limits."
    return [checks.Warning(text, hint, id=_id("W004"))]


@checks.register(Tags.security, deploy=True)
def check_database(app_configs: Apps, **options: Any) -> Messages:
    if not settings.EMBEDDED:
        return []
    hint = "Set DATABASE_URL to a PostgreSQL server that is backed up."
    return [checks.Warning("The embedded PostgreSQL holds all data.", hint, id=_id("W005"))]


@checks.register(Tags.security, deploy=True)
def check_throttles(app_configs: Apps, **options: Any) -> Messages:
    if (
        settings.REST_FRAMEWORK["DEFAULT_THROTTLE_CLASSES"]
        and settings.REQUESTS_PER_MINUTE <= MOST_REQUESTS_PER_MINUTE
    ):
        return []
    hint = f"Set REQUESTS_PER_MINUTE to at most {MOST_REQUESTS_PER_MINUTE:,}."
    return [checks.Warning("Requests are not limited.", hint, id=_id("W006"))]


@checks.register(Tags.security, deploy=True)
def check_sign_up(app_configs: Apps, **options: Any) -> Messages:
    if getattr(settings, "SIGN_UP", "closed") != "open":
        return []
    hint = (
        f"Each new workspace has ${settings.STARTING_CREDITS} of credits. Set SIGN_UP=invitation."
    )
    return [checks.Warning("Anyone can sign up.", hint, id=_id("W007"))]


@checks.register(Tags.security, deploy=True)
def check_operator_keys(app_configs: Apps, **options: Any) -> Messages:
    if getattr(settings, "OPERATOR_KEYS", "all") != "all":
        return []
    served = [name for name in PROVIDERS if credentials_from_environment(name)[0]]
    if not served:
        return []
    hint = "Let workspaces add their own keys, or set OPERATOR_KEYS=staff."
    text = f"Every workspace uses the operator's key of {', '.join(served)}."
    return [checks.Warning(text, hint, id=_id("W008"))]


@checks.register(Tags.security, deploy=True)
def check_mail(app_configs: Apps, **options: Any) -> Messages:
    if not settings.EMAIL_HOST:
        hint = "Set EMAIL_HOST. Until then, mails with sign-in links are files in DATA_DIR/mail."
        return [checks.Warning("No mail server is set.", hint, id=_id("W009"))]
    is_local = settings.EMAIL_HOST in ("localhost", "127.0.0.1", "::1")
    if settings.EMAIL_USE_TLS or is_local:
        return []
    return [checks.Warning("Mails are sent without TLS.", "Set EMAIL_TLS=1.", id=_id("W009"))]


@checks.register(Tags.security, deploy=True)
def check_repository_roots(app_configs: Apps, **options: Any) -> Messages:
    data = Path(settings.DATA_DIR).resolve()
    roots = [Path(root).resolve() for root in settings.REPO_ROOTS]
    wide = [root for root in roots if data.is_relative_to(root) or root.is_relative_to(data)]
    if not wide:
        return []
    hint = "Sessions could mount repositories of other workspaces. Name another folder."
    return [checks.Warning(f"REPO_ROOTS: {wide[0]} overlaps DATA_DIR.", hint, id=_id("W010"))]


@checks.register(Tags.security, deploy=True)
def check_metrics_token(app_configs: Apps, **options: Any) -> Messages:
    if not settings.METRICS_TOKEN or len(settings.METRICS_TOKEN) >= SHORTEST_SECRET:
        return []
    hint = f"Use at least {SHORTEST_SECRET} random characters."
    return [checks.Warning("METRICS_TOKEN can be guessed.", hint, id=_id("W011"))]


@checks.register(Tags.security, deploy=True)
def check_sandboxes(app_configs: Apps, **options: Any) -> Messages:
    try:
        find_bwrap()
        find_bash()
    except SandboxUnavailable as fault:
        hint = "Commands are refused until it is mended; nothing runs without its limits."
        return [checks.Warning(f"Local sandboxes cannot run: {fault.detail}", hint, id=_id("W012"))]
    return []


def _id(number: str) -> str:
    return f"switchyard.{number}"

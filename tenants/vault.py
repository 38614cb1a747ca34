"""The vault: secrets that the runtime's own clients use and that are never shown.

Text refers to a secret as `{{vault:NAME}}`. `fill` inserts the value where a request is about to
be sent, and nowhere else: stored, logged and displayed text keeps the name.
"""

from __future__ import annotations

import base64
import json
import re
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from fnmatch import fnmatchcase
from threading import Lock
from typing import Any
from urllib.parse import quote
from uuid import UUID

from cryptography.fernet import InvalidToken
from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone
from encrypted_fields.fields import EncryptedTextField

from core.db import lock_row
from core.exceptions import Conflict, Invalid, NotFound
from tenants.exceptions import SecretMissing, SecretRefused
from tenants.models import Secret, User

MASK = "[secret]"
#: Shorter values would match parts of ordinary words.
SHORTEST_MASKED = 6
#: The same for one line of a longer secret.
SHORTEST_LINE = 8
#: Characters in a line of base64, as most programs write it.
BASE64_LINE = 76

_CIPHER = EncryptedTextField()
_lock = Lock()
_revealed: defaultdict[UUID, frozenset[str]] = defaultdict(frozenset)


def seal(text: str) -> str:
    """Encrypt a text as the values of secrets are, for a place that others can read."""
    return str(_CIPHER.get_prep_value(text))


def unseal(token: str) -> str | None:
    """Return a sealed text, or None if it was sealed with a key that is not known here."""
    try:
        return _CIPHER.f.decrypt(token.encode()).decode()
    except InvalidToken:
        return None


def remember(workspace_id: UUID, value: str) -> None:
    """Mask the value in this workspace's texts from now on."""
    if len(value) < SHORTEST_MASKED or value in _revealed[workspace_id]:
        return
    with _lock:
        _revealed[workspace_id] |= spellings(value)


def spellings(value: str) -> frozenset[str]:
    """Return the value as plain text and as JSON, a URL or a Basic credential encodes it.

    Programs print a text of several lines, and base64, line by line, so each line counts as well.
    """
    encoded = base64.b64encode(value.encode()).decode().rstrip("=")
    forms = {value, json.dumps(value)[1:-1], quote(value, safe=""), encoded}
    lines = [line.strip() for line in value.splitlines()]
    lines += [encoded[at : at + BASE64_LINE] for at in range(0, len(encoded), BASE64_LINE)]
    forms.update(line for line in lines if len(line) >= SHORTEST_LINE)
    return frozenset(form for form in forms if len(form) >= SHORTEST_MASKED)


def mask(workspace_id: UUID, text: str) -> str:
    """Return the text with every secret replaced that this process revealed in the workspace."""
    # The longest first, because a secret may begin with another one.
    for value in sorted(_revealed.get(workspace_id, ()), key=len, reverse=True):
        text = text.replace(value, MASK)
    return text


def mask_json(workspace_id: UUID, value: Any) -> Any:
    """Mask every text in a JSON value, including the keys of objects."""
    match value:
        case str():
            return mask(workspace_id, value)
        case dict():
            return {
                mask(workspace_id, str(key)): mask_json(workspace_id, part)
                for key, part in value.items()
            }
        case list() | tuple():
            return [mask_json(workspace_id, part) for part in value]
        case _:
            return value


NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$"
NAME_RULE = "Use letters, digits, _, - and ., beginning with a letter."
LONGEST_VALUE = 16_384
MOST_HOSTS = 20
PLACEHOLDER = re.compile(r"\{\{\s*vault:\s*([A-Za-z0-9_.-]{1,64})\s*\}\}")
_HOST = re.compile(
    r"^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
)
#: The time of the last use is this exact, so that a busy secret is not written at every use.
USE_MINUTES = 1


def add(
    workspace_id: UUID, name: str, value: str, *, hosts: Iterable[str] = (), by: User | None = None
) -> Secret:
    """Store a new secret. Raise Conflict when the name is taken."""
    given = {**_checked(name, value, hosts), "created_by": by}
    secret, is_new = Secret.objects.get_or_create(
        workspace_id=workspace_id, name=name, defaults=given
    )
    if not is_new:
        raise Conflict(f"A secret named {name} already exists. Change it instead.")
    return secret


@transaction.atomic
def replace(secret: Secret, value: str, *, hosts: Iterable[str] | None = None) -> None:
    """Change the value of a secret, and its hosts if given.

    A secret that was deleted meanwhile is not created again.
    """
    changed = _checked(secret.name, value, hosts)
    locked = lock_row(secret)
    for name, given in changed.items():
        setattr(locked, name, given)
    locked.save(update_fields=[*changed])


def _checked(name: str, value: str, hosts: Iterable[str] | None) -> dict[str, object]:
    if not re.fullmatch(NAME_PATTERN, name):
        raise Invalid(NAME_RULE)
    if not value or len(value) > LONGEST_VALUE or "\x00" in value:
        raise Invalid(f"A secret has 1 to {LONGEST_VALUE:,} characters and no NUL character.")
    checked: dict[str, object] = {"value": value, "set_at": timezone.now()}
    return checked if hosts is None else {**checked, "hosts": checked_hosts(hosts)}


def checked_hosts(hosts: Iterable[str]) -> list[str]:
    """Return the host names in lower case, or raise Invalid for the first that is not one."""
    names = list(dict.fromkeys(host.strip().lower() for host in hosts if host.strip()))
    if len(names) > MOST_HOSTS:
        raise Invalid(f"A secret can be limited to at most {MOST_HOSTS} hosts.")
    for host in names:
        if not _HOST.fullmatch(host):
            raise Invalid(
                f"{host[:80]!r} is not a host name. Write api.example.com or *.example.com."
            )
    return names


def restrict(workspace_id: UUID, name: str, hosts: Iterable[str]) -> None:
    """Set the hosts that the secret may be sent to, without changing its value."""
    rows = Secret.objects.for_workspace(workspace_id).filter(name=name)
    if not rows.update(hosts=checked_hosts(hosts)):
        raise NotFound


def delete(workspace_id: UUID, name: str) -> None:
    """Delete a secret. Whatever still refers to it fails with SecretMissing."""
    deleted, _ = Secret.objects.for_workspace(workspace_id).filter(name=name).delete()
    if not deleted:
        raise NotFound


def reveal(workspace_id: UUID, name: str, *, host: str = "") -> str:
    """Return the value for a request to this host. A secret that is limited to hosts needs one."""
    secret = Secret.objects.for_workspace(workspace_id).filter(name=name).first()
    if secret is None:
        raise SecretMissing(f"The vault has no secret named {name}. An admin can add it.")
    if secret.hosts and not any(fnmatchcase(host.lower(), pattern) for pattern in secret.hosts):
        raise SecretRefused(
            f"The secret {name} may only be sent to {', '.join(secret.hosts)}, "
            f"not to {host or 'an unknown host'}."
        )
    remember(workspace_id, secret.value)
    stale = Q(last_used_at=None) | Q(last_used_at__lt=Now() - timedelta(minutes=USE_MINUTES))
    Secret.objects.filter(stale, pk=secret.pk).update(last_used_at=Now())
    return str(secret.value)


def fill(workspace_id: UUID, text: str, *, host: str = "") -> str:
    """Replace every `{{vault:NAME}}` in the text by the value of that secret."""
    return PLACEHOLDER.sub(lambda match: reveal(workspace_id, match[1], host=host), text)


def fill_bound(workspace_id: UUID, text: str, host: str) -> str:
    """Fill in secrets for an untrusted program: only those that are limited to this host."""
    named = Secret.objects.for_workspace(workspace_id).filter(name__in=names_in(text))
    if unlimited := [secret.name for secret in named if not secret.hosts]:
        raise SecretRefused(
            f"The secret {unlimited[0]} is not limited to a host, so a sandbox may not send it."
        )
    return fill(workspace_id, text, host=host)


def names_in(text: str) -> list[str]:
    """Return the names of the secrets that a text refers to."""
    return list(dict.fromkeys(PLACEHOLDER.findall(text)))

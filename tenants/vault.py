"""The vault: secrets that are put in, used by the runtime's own clients, and never shown.

Text names a secret as `{{vault:NAME}}`. `fill` puts the value in where a request is about to be
sent, and nowhere else: what is stored, logged or shown keeps the name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from fnmatch import fnmatchcase
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from config.faults import Conflict, Invalid, NotFound, SecretMissing, SecretRefused
from tenants.masking import remember
from tenants.models import Secret, User
from tenants.rows import hold

NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$"
NAME_WORDS = "A name is made of letters, digits, _, - and ., and begins with a letter."
LONGEST_VALUE = 16_384
MOST_HOSTS = 20
PLACEHOLDER = re.compile(r"\{\{\s*vault:\s*([A-Za-z0-9_.-]{1,64})\s*\}\}")
_HOST = re.compile(
    r"^(\*\.)?([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
)
#: How exact the time of the last use is: a busy secret is not written at every use.
USE_MINUTES = 1

#: What uses secrets of a workspace: each answers with the users of each name it found.
users: list[Callable[[UUID], Mapping[str, list[str]]]] = []


def put(
    workspace_id: UUID,
    name: str,
    value: str,
    *,
    hosts: Iterable[str] | None = None,
    by: User | None = None,
) -> Secret:
    """Keep a secret, or replace the one of that name. Without hosts, the ones it had stay."""
    changed = _checked(name, value, hosts)
    secret, _ = Secret.objects.update_or_create(
        workspace_id=workspace_id,
        name=name,
        defaults=changed,
        create_defaults={**changed, "created_by": by},
    )
    return secret


def add(
    workspace_id: UUID, name: str, value: str, *, hosts: Iterable[str] = (), by: User | None = None
) -> Secret:
    """Keep a new secret. Of two who add one of the same name, the second is refused."""
    given = {**_checked(name, value, hosts), "created_by": by}
    secret, is_new = Secret.objects.get_or_create(
        workspace_id=workspace_id, name=name, defaults=given
    )
    if not is_new:
        raise Conflict(f"A secret named {name} is there already. Change it instead.")
    return secret


@transaction.atomic
def replace(secret: Secret, value: str, *, hosts: Iterable[str] | None = None) -> None:
    """Give a secret another value. One that was deleted meanwhile does not come back."""
    hold(secret)
    put(secret.workspace_id, secret.name, value, hosts=hosts)


def _checked(name: str, value: str, hosts: Iterable[str] | None) -> dict[str, object]:
    if not re.fullmatch(NAME_PATTERN, name):
        raise Invalid(NAME_WORDS)
    if not value or len(value) > LONGEST_VALUE or "\x00" in value:
        raise Invalid(f"A secret has 1 to {LONGEST_VALUE:,} characters, and none of them is NUL.")
    checked: dict[str, object] = {"value": value, "set_at": timezone.now()}
    return checked if hosts is None else {**checked, "hosts": checked_hosts(hosts)}


def checked_hosts(hosts: Iterable[str]) -> list[str]:
    """Host names in their plain form, or a complaint about the first that is none."""
    found = list(dict.fromkeys(host.strip().lower() for host in hosts if host.strip()))
    if len(found) > MOST_HOSTS:
        raise Invalid(f"At most {MOST_HOSTS} hosts.")
    for host in found:
        if not _HOST.fullmatch(host):
            raise Invalid(f"{host[:80]!r} is no host name. Write api.example.com or *.example.com.")
    return found


def restrict(workspace_id: UUID, name: str, hosts: Iterable[str]) -> None:
    """Say where the secret may be sent, and leave its value alone."""
    rows = Secret.objects.for_workspace(workspace_id).filter(name=name)
    if not rows.update(hosts=checked_hosts(hosts)):
        raise NotFound


def forget(workspace_id: UUID, name: str) -> None:
    """Delete a secret. What uses it says from then on that it is missing."""
    deleted, _ = Secret.objects.for_workspace(workspace_id).filter(name=name).delete()
    if not deleted:
        raise NotFound


def reveal(workspace_id: UUID, name: str, *, host: str = "") -> str:
    """The value, for a request to this host. A secret that is bound to hosts needs one."""
    secret = Secret.objects.for_workspace(workspace_id).filter(name=name).first()
    if secret is None:
        raise SecretMissing(f"The vault holds no secret named {name}. An admin can add it there.")
    if secret.hosts and not any(fnmatchcase(host.lower(), one) for one in secret.hosts):
        raise SecretRefused(
            f"The secret {name} may only be sent to {', '.join(secret.hosts)}, "
            f"not to {host or 'an unnamed place'}."
        )
    remember(workspace_id, secret.value)
    stale = Q(last_used_at=None) | Q(last_used_at__lt=Now() - timedelta(minutes=USE_MINUTES))
    Secret.objects.filter(stale, pk=secret.pk).update(last_used_at=Now())
    return str(secret.value)


def fill(workspace_id: UUID, text: str, *, host: str = "") -> str:
    """The text with every `{{vault:NAME}}` replaced by that secret's value."""
    return PLACEHOLDER.sub(lambda found: reveal(workspace_id, found[1], host=host), text)


def fill_bound(workspace_id: UUID, text: str, host: str) -> str:
    """The same for a program that is not trusted: only secrets that are bound to this very host."""
    bound = Secret.objects.for_workspace(workspace_id).filter(name__in=names_in(text))
    if loose := [secret.name for secret in bound if not secret.hosts]:
        raise SecretRefused(
            f"The secret {loose[0]} is bound to no host, so nothing in a sandbox may send it."
        )
    return fill(workspace_id, text, host=host)


def names_in(text: str) -> list[str]:
    """The secrets that a text names."""
    return list(dict.fromkeys(PLACEHOLDER.findall(text)))


def users_of(workspace_id: UUID) -> dict[str, list[str]]:
    """What uses each secret, in words, by the secret's name."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for ask in users:
        for name, words in ask(workspace_id).items():
            found[name] += words
    return dict(found)

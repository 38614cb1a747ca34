"""What all factories share."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from django.db.models import Model

from tenants.models import User, Workspace

Factory = Callable[[Workspace], Model]

numbers = count(1)


def user() -> User:
    return User.objects.create_user(f"person{next(numbers)}@example.com", "correct horse 9")

"""A program's key to one workspace. Only its digest is stored."""

from __future__ import annotations

from typing import Self

from django.db import models
from django.db.models import OuterRef, Q, Subquery
from django.db.models.functions import Now

from tenants.ids import uuid7
from tenants.models.membership import Membership
from tenants.models.owned import OwnedModel, OwnedQuerySet


class ApiKeyQuerySet(OwnedQuerySet):
    def valid(self) -> Self:
        """Keys that open a door now, with the role that whoever made them has here now.

        Who left, or was switched off, knows them by heart. Those that nobody made have no maker to lose.
        """
        makers = Membership.objects.filter(
            workspace=OuterRef("workspace"), user=OuterRef("created_by"), user__is_active=True
        )
        open_ones = self.filter(Q(expires_at=None) | Q(expires_at__gt=Now()), revoked_at=None)
        with_roles = open_ones.annotate(maker_role=Subquery(makers.values("role")))
        return with_roles.filter(Q(created_by=None) | Q(maker_role__isnull=False))


class ApiKey(OwnedModel):
    class Scope(models.TextChoices):
        READ = "read"
        RUN = "run"
        ADMIN = "admin"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=16, editable=False)
    digest = models.CharField(max_length=64, unique=True, editable=False)
    scope = models.CharField(max_length=5, choices=Scope, default=Scope.RUN)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False)

    #: Filled in by `valid`.
    maker_role: str | None

    objects = ApiKeyQuerySet.as_manager()  # type: ignore[misc]

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

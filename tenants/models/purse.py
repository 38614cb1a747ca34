"""The purse: how much may be spent by a workspace, an agent, a session, a person or a key."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from tenants.ids import uuid7
from tenants.models.owned import OwnedModel


class Purse(OwnedModel):
    """Amounts are US dollars. The functions of `sql/money.sql` write `spent`, `reserved`, `debt`.

    The purse of a workspace holds its credits: its ceiling is all that was ever granted.
    """

    class Kind(models.TextChoices):
        WORKSPACE = "workspace"
        AGENT = "agent"
        SESSION = "session"
        MEMBER = "member"
        KEY = "key"

    class Period(models.TextChoices):
        EVER = "ever"
        DAY = "day"
        MONTH = "month"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=9, choices=Kind)
    owner_id = models.UUIDField()
    period = models.CharField(
        max_length=5, choices=Period, default=Period.EVER, db_default=Period.EVER
    )
    #: The first day of the period that `spent` counts.
    since = models.DateField(null=True, editable=False)
    ceiling = models.DecimalField(max_digits=18, decimal_places=8, default=0, db_default=0)
    spent = models.DecimalField(
        max_digits=18, decimal_places=8, default=0, db_default=0, editable=False
    )
    reserved = models.DecimalField(
        max_digits=18, decimal_places=8, default=0, db_default=0, editable=False
    )
    #: What calls cost beyond their reservation. It is part of `spent`.
    debt = models.DecimalField(
        max_digits=18, decimal_places=8, default=0, db_default=0, editable=False
    )
    #: When people were told that little is left. A grant or a raise forgets it.
    low_since = models.DateTimeField(null=True, editable=False)

    class Meta:
        db_table = "purses"
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "kind", "owner_id"], name="purse_is_the_only_one_of_its_owner"
            ),
            models.CheckConstraint(
                condition=Q(reserved__gte=0), name="purse_reserves_no_less_than_nothing"
            ),
        ]

    def __str__(self) -> str:
        return f"purse of {self.kind} {self.owner_id}"

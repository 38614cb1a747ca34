"""The credit ledger: every grant, adjustment and charge of a workspace. Written once."""

from __future__ import annotations

from django.db import models

from tenants.ids import uuid7
from tenants.models.owned import OwnedModel


class CreditEntry(OwnedModel):
    """One line of the ledger. The sum of a workspace's lines is its balance."""

    class Kind(models.TextChoices):
        GRANT = "grant"
        ADJUSTMENT = "adjustment"
        CHARGE = "charge"
        SANDBOX = "sandbox"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    kind = models.CharField(max_length=10, choices=Kind)
    amount = models.DecimalField(max_digits=18, decimal_places=8)
    note = models.CharField(max_length=200, blank=True, default="", db_default="")
    call = models.OneToOneField(
        "tenants.ModelCall", null=True, blank=True, on_delete=models.CASCADE, related_name="entry"
    )

    class Meta:
        db_table = "credit_ledger"
        ordering = ["-created_at", "-id"]
        indexes = [models.Index(fields=["workspace", "-created_at"], name="credit_by_time")]

    def __str__(self) -> str:
        return f"{self.kind} {self.amount}"

"""What a workspace pays for a model, where that differs from the price list."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from tenants.ids import uuid7
from tenants.models.owned import OwnedModel


class Price(OwnedModel):
    """US dollars per million tokens. Beats the list; gives self-hosted models a price."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    provider = models.CharField(max_length=40)
    model = models.CharField(max_length=200)
    input_price = models.DecimalField(max_digits=12, decimal_places=6)
    output_price = models.DecimalField(max_digits=12, decimal_places=6)

    class Meta:
        db_table = "model_prices"
        ordering = ["provider", "model"]
        constraints = [
            models.UniqueConstraint(
                fields=["workspace", "provider", "model"], name="price_is_said_once_per_model"
            ),
            models.CheckConstraint(
                condition=Q(input_price__gte=0, output_price__gte=0), name="price_is_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.provider}/{self.model}"

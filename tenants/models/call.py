"""The model call: what was asked of whom, what was reserved for it, and what it cost."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from tenants.ids import uuid7
from tenants.models.owned import OwnedModel


class ModelCall(OwnedModel):
    """Written before the call, so that a crash cannot hide one."""

    class State(models.TextChoices):
        RESERVED = "reserved"
        SETTLED = "settled"
        #: Nobody counted: charged by a guess, or by the whole reservation after a crash.
        ESTIMATED = "estimated"
        FAILED = "failed"

    class Purpose(models.TextChoices):
        ANSWER = "answer"
        SUMMARY = "summary"
        FLUSH = "flush"
        GRADE = "grade"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    agent_id = models.UUIDField(null=True)
    session_id = models.UUIDField(null=True)
    run_id = models.UUIDField(null=True)
    key_id = models.UUIDField(null=True)
    #: Of the lane, so that a call whose holder is gone is known.
    epoch = models.BigIntegerField(null=True)
    provider = models.CharField(max_length=40)
    model = models.CharField(max_length=200)
    purpose = models.CharField(max_length=7, choices=Purpose, default=Purpose.ANSWER)
    state = models.CharField(
        max_length=9, choices=State, default=State.RESERVED, db_default=State.RESERVED
    )
    reserved = models.DecimalField(max_digits=18, decimal_places=8)
    cost = models.DecimalField(max_digits=18, decimal_places=8, default=0, db_default=0)
    input_tokens = models.BigIntegerField(default=0, db_default=0)
    output_tokens = models.BigIntegerField(default=0, db_default=0)
    cached_tokens = models.BigIntegerField(default=0, db_default=0)
    purses = ArrayField(models.UUIDField(), default=list)
    #: When somebody saw that its holder is gone.
    lost_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        db_table = "model_calls"
        ordering = ["-created_at", "-id"]
        indexes = [
            models.Index(fields=["workspace", "-created_at"], name="call_by_time"),
            models.Index(fields=["session_id", "-created_at"], name="call_by_session"),
            models.Index(fields=["session_id"], condition=Q(state="reserved"), name="call_open"),
        ]

    def __str__(self) -> str:
        return f"{self.state} call of {self.model}"

"""The answer that is being written, so that a reload shows all of it."""

from __future__ import annotations

from django.db import models

from sessions_app.models.session import Session


class Draft(models.Model):
    """Not a record: the table is unlogged, and the stored event replaces its row."""

    session = models.OneToOneField(
        Session, primary_key=True, on_delete=models.CASCADE, db_constraint=False, related_name="+"
    )
    event_id = models.UUIDField()
    run_id = models.UUIDField()
    epoch = models.BigIntegerField()
    text = models.TextField()

    class Meta:
        db_table = "session_drafts"

    def __str__(self) -> str:
        return f"draft of {self.event_id}"

"""What a running tool has said lately, so that a reload in the middle of a command shows it."""

from __future__ import annotations

from django.db import models

from sessions_app.models.session import Session


class ToolOutput(models.Model):
    """Not a record: the table is unlogged, and the call's result replaces its row."""

    tool_use_id = models.CharField(primary_key=True, max_length=64)
    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, db_constraint=False, related_name="+"
    )
    run_id = models.UUIDField()
    epoch = models.BigIntegerField()
    name = models.CharField(max_length=160)
    #: Code points that were said before `text`.
    start = models.BigIntegerField()
    text = models.TextField()

    class Meta:
        db_table = "session_tool_outputs"

    def __str__(self) -> str:
        return f"output of {self.tool_use_id}"

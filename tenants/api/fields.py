"""Fields of REST's shapes that take text for text: a number is refused, not written out."""

from __future__ import annotations

from typing import Any

from django.db import models
from rest_framework import serializers


class TextField(serializers.CharField):
    """Text that was sent as text."""

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return super().to_internal_value(data)


class PatternField(TextField, serializers.RegexField):
    """The same, of a certain form."""


class OwnSerializer(serializers.ModelSerializer):
    """A model's own text fields are as strict."""

    serializer_field_mapping = {
        **serializers.ModelSerializer.serializer_field_mapping,
        models.CharField: TextField,
        models.TextField: TextField,
    }

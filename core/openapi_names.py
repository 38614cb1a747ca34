"""Names the components of the OpenAPI document, in a module that the REST framework can import early."""

from __future__ import annotations

from typing import Any

from drf_spectacular.openapi import AutoSchema

from core.plugins import plugins


class NamedSchema(AutoSchema):
    """Puts the name of a plugin before those of its serializers, which may exist elsewhere too."""

    def get_serializer_name(self, serializer: Any, direction: Any) -> str:
        name = super().get_serializer_name(serializer, direction)
        package = type(serializer).__module__.partition(".")[0]
        return f"{package.title().replace('_', '')}{name}" if package in plugins else name

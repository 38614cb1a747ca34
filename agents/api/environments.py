"""REST: environments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agents.api.named_rows import NamedRowViewSet, documented
from agents.api.serializers import EnvironmentSerializer
from agents.environments import change_environment, create_environment, delete_environment
from agents.models import Environment


@documented(
    create="Make an environment. Only the name is needed; the network is `none` unless said.",
    update="Define the environment anew; what is not named gets its default.",
    destroy="Delete the environment, unless a version or a session refers to it.",
    taken="The name is taken, or is the default's and has to stay.",
    needed="It is the default, or something refers to it.",
)
class EnvironmentViewSet(NamedRowViewSet):
    """Where agents' commands run."""

    queryset = Environment.objects.all()
    serializer_class = EnvironmentSerializer
    filterset_fields = ["name", "kind", "network"]

    def make(self, **given: Any) -> Environment:
        return create_environment(**given)

    def change(self, row: Environment, fields: Mapping[str, Any], *, replace: bool) -> Environment:
        return change_environment(row, fields, replace=replace)

    def remove(self, row: Environment) -> None:
        delete_environment(row)

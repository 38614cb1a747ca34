"""REST: API keys of the acting workspace."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.mixins import ListModelMixin, RetrieveModelMixin
from rest_framework.request import Request
from rest_framework.response import Response

from config.faults import Forbidden
from tenants.access import SCOPE_VERBS, authorise
from tenants.api.base import WorkspaceViewSet
from tenants.api.serializers import IssuedKeySerializer, KeySerializer
from tenants.keys import issue_key, revoke_key
from tenants.models import ApiKey


class KeyViewSet(ListModelMixin, RetrieveModelMixin, WorkspaceViewSet):
    queryset = ApiKey.objects.all()
    serializer_class = KeySerializer
    filterset_fields = ["scope"]
    verbs = {"list": "admin", "retrieve": "admin", "create": "admin", "destroy": "admin"}

    @extend_schema(request=KeySerializer, responses={201: IssuedKeySerializer})
    def create(self, request: Request) -> Response:
        """Issue a key. The answer is the only place where its secret is ever shown."""
        asked = KeySerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        wanted: dict[str, Any] = asked.validated_data
        workspace_id = authorise(self.principal, "admin")
        if not SCOPE_VERBS[wanted.get("scope", ApiKey.Scope.RUN)] <= self.principal.verbs:
            raise Forbidden("A key cannot have more rights than whoever issues it.")
        issued = issue_key(workspace_id=workspace_id, created_by=self.principal.user, **wanted)
        return Response({**KeySerializer(issued.key).data, "key": issued.secret}, status=201)

    def destroy(self, request: Request, pk: str) -> Response:
        """Revoke a key. It stays in the list, and opens nothing any more."""
        key = self.get_object()
        revoke_key(workspace_id=key.workspace_id, key_id=key.pk)
        return Response(status=204)

"""The REST route that lists the tables."""

from __future__ import annotations

from dataclasses import asdict

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from sql_tools import database
from tenants.authentication import authorised


class ColumnSerializer(serializers.Serializer):
    name = serializers.CharField()
    type = serializers.CharField()
    may_be_null = serializers.BooleanField()


class TableSerializer(serializers.Serializer):
    name = serializers.CharField()
    columns = ColumnSerializer(many=True)


class TablesView(APIView):
    @extend_schema(operation_id="sql_tools_tables", responses=TableSerializer(many=True))
    def get(self, request: Request) -> Response:
        """List the tables of the database with their columns; none if it is not open to you."""
        _, workspace_id = authorised(request, "build")
        names = database.list_tables() if database.may_read(workspace_id) else []
        described = [(name, database.describe_table(name)) for name in names]
        return Response(
            [{"name": name, "columns": list(map(asdict, columns))} for name, columns in described]
        )

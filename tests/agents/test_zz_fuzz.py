import pytest, json, schemathesis
from hypothesis import settings as hs, HealthCheck, given, strategies as st
from rest_framework.test import APIClient
from drf_spectacular.generators import SchemaGenerator
from tests.conftest import key_client

def test_fuzz(workspace, agent, settings):
    settings.REQUESTS_PER_MINUTE = 10**9
    api = key_client(workspace)
    raw = json.loads(json.dumps(SchemaGenerator().get_schema(request=None, public=True), default=str))
    raw["paths"] = {p: v for p, v in raw["paths"].items() if any(x in p for x in ("/agents/", "/environments/", "/providers/", "/models/"))}
    schema = schemathesis.openapi.from_dict(raw)
    bad = []
    env = api.get("/api/v1/environments/").json()["results"][0]["id"]
    for op in schema.get_all_operations():
        op = op.ok()
        @hs(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(case=op.as_strategy())
        def run(case):
            path = case.path
            args = dict(case.path_parameters or {})
            if "id" in args: args["id"] = env if "environments" in path else str(agent.pk)
            if "agent_id" in args: args["agent_id"] = str(agent.pk)
            from urllib.parse import quote
            for k, v in args.items(): path = path.replace("{%s}" % k, quote(str(v), safe=""))
            body = case.body
            try: data = json.dumps(body) if not isinstance(body, type(schemathesis.openapi)) else ""
            except TypeError: data = ""
            r = api.generic(case.method, path, data, content_type="application/json", QUERY_STRING="")
            if r.status_code >= 500: bad.append((case.method, path, data[:300], r.status_code))
        run()
    print(bad[:5])
    assert not bad, bad[:3]

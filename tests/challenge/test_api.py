"""Every call of the service with generated input, from its own description: an answer is never a 500."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig

import pytest

pytest.importorskip("fastapi", reason="needs handful[serve]")
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .serving import served
from .test_service import Site, root, token  # noqa: F401

WORDS = st.one_of(
    st.text(max_size=30),
    st.integers().map(str),
    st.sampled_from(["", "0", "1", "-1", str(2**31), str(2**63), "9" * 400, "%00", "\x00", "..", "feedback", "final"]),
    st.sampled_from(
        ["free-style", "women", "<b>", "'; drop table users; --", "\u202e", "ａnn", "=1+1", "NaN", "💥" * 50]
    ),
)
METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")


@pytest.fixture(scope="module")
def described(root, tmp_path_factory):  # noqa: F811
    """A site that describes its calls, one that has the same calls undescribed, and their clients."""
    site = Site(root, tmp_path_factory.mktemp("api"), options={"schema": True, "registrations": 10**6})
    site.advance(site.organiser())
    ann = site.participant("ann")
    page = ann.post("/account/token", data={"csrf": token(ann, "/account")}).text
    bearer = "Bearer " + re.search(r"hf_[\w-]+", page).group(0)
    return site, ann, bearer, site.client().get("/openapi.json").json()["paths"]


def test_the_description_is_for_tests_only(root, tmp_path):  # noqa: F811
    client = Site(root, tmp_path).client()
    assert [client.get(path).status_code for path in ("/openapi.json", "/docs", "/redoc")] == [404] * 3


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_generated_call_ends_in_a_500(described, data):
    site, ann, bearer, paths = described
    path = data.draw(st.sampled_from(sorted(paths)))
    method = data.draw(st.sampled_from([*(m.upper() for m in paths[path] if m != "parameters"), *METHODS]))
    call = paths[path].get(method.lower(), {})
    from urllib.parse import quote

    asked = {p["name"]: data.draw(WORDS) for p in call.get("parameters", []) if data.draw(st.booleans())}
    where = re.sub(r"{\w+}", lambda _: quote(data.draw(WORDS), safe="%"), path)
    query = {
        p["name"]: asked[p["name"]] for p in call.get("parameters", []) if p["in"] == "query" and p["name"] in asked
    }
    client = data.draw(st.sampled_from([ann, site.client()]))
    form = {
        name: data.draw(WORDS)
        for name in ("name", "password", "email", "real_name", "league", "pseudonym", "member-0", "fact-0")
        if data.draw(st.booleans())
    }
    if data.draw(st.booleans()) and path != "/logout":
        form["csrf"] = token(client, "/login")
    options: dict = {"headers": {"Authorization": bearer} if data.draw(st.booleans()) else {}}
    if method == "POST":
        kind = data.draw(st.sampled_from(["form", "files", "bytes"]))
        if kind == "bytes":
            options["content"] = data.draw(st.binary(max_size=200))
            options["headers"]["Content-Type"] = data.draw(
                st.sampled_from(["application/json", "multipart/form-data; boundary=b", "multipart/form-data", "x"])
            )
        else:
            options["data"] = form
        if kind == "files":
            options["files"] = {"archive": (data.draw(st.text(max_size=10)) or "a", data.draw(st.binary(max_size=100)))}
    answer = client.request(method, where, params=query, **options)
    assert answer.status_code < 500, (method, where, answer.text[:300])
    assert answer.headers["x-content-type-options"] == "nosniff"
    if path.startswith("/api/") and method != "HEAD":
        assert isinstance(answer.json(), dict)


@pytest.mark.slow
def test_schemathesis_finds_no_500(described):
    """The calls by their own description, from outside over a socket, with the cases that schemathesis knows to be hard."""
    pytest.importorskip("schemathesis", reason="needs handful[test]")
    program = shutil.which("schemathesis", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]]))
    assert program is not None
    site, _, bearer, _ = described
    with served(site) as server:
        command = [program, "run", f"{server.url}/openapi.json", "-H", f"Authorization: {bearer}"]
        command += ["--checks", "not_a_server_error", "--max-examples", "10", "--seed", "1", "--max-time", "60"]
        done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:]
    assert int(re.search(r"(\d+) generated", done.stdout).group(1)) > 100

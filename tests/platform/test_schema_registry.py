"""Schema registries, against a real one: what is asked for, how often, and what is said when it cannot be had."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from incload_assets.platform import schema_registry
from incload_assets.platform.errors import SourceUnavailable, SourceUnreadable
from incload_assets.platform.schema_registry import SchemaRegistry
from tests.servers.registry import PASSWORD, PATH, TOKEN, USER, Gate, Registry, gate_of
from tests.servers.switch import switched
from tests.servers.tls import tls_in_front_of
from tests.support.certificates import Authority

pytestmark = pytest.mark.integration

HERE = "items: the message at offset 7 of partition 0"


def record(name: str, **fields: Any) -> dict[str, Any]:
    members = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "namespace": "org.example", "fields": members}


@pytest.fixture
def gate(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """A gate that the environment names, with an account; nothing is known from other tests."""
    schema_registry.forget()
    monkeypatch.setattr(schema_registry, "_PAUSE_SECONDS", 0)
    with gate_of(registry) as found:
        monkeypatch.setenv("INCLOAD_REGISTRY_MAIN_URL", found.url)
        monkeypatch.setenv("INCLOAD_REGISTRY_MAIN_USER", USER)
        monkeypatch.setenv("INCLOAD_REGISTRY_MAIN_PASSWORD", PASSWORD)
        yield found


def test_each_id_is_asked_for_once_and_what_it_refers_to_comes_along(registry: Registry, gate: Gate) -> None:
    country, address = record("Country", code="string"), record("Address", country="org.example.Country")
    registry.register("country", country)
    place = [{"name": "org.example.Country", "subject": "country", "version": 1}]
    registry.register("the address", address, place)
    number = registry.register(
        "person",
        record("Person", home="org.example.Address", work="org.example.Address"),
        [{"name": "org.example.Address", "subject": "the address", "version": 1}, *place],
    )
    for _ in range(3):
        found = SchemaRegistry.named("main").schema(number, HERE)
    assert found.kind == "AVRO" and json.loads(found.text)["name"] == "Person"
    assert [json.loads(text)["name"] for text in found.references] == ["Country", "Address"]
    assert gate.paths == [
        f"{PATH}/schemas/ids/{number}",
        f"{PATH}/subjects/the%20address/versions/1",
        f"{PATH}/subjects/country/versions/1",
    ]


def test_schemas_that_refer_to_each_other_are_asked_for_once(gate: Gate) -> None:
    answer = json.dumps({"schema": "{}", "references": [{"name": "a", "subject": "a", "version": 1}]}).encode()
    gate.answers = [(200, {}, answer)] * 5
    assert SchemaRegistry.named("main").schema(7, HERE).references == ("{}",)
    assert len(gate.paths) == 2


def test_an_unknown_id_is_refused_with_a_remedy_and_asked_for_again(registry: Registry, gate: Gate) -> None:
    for _ in range(2):
        with pytest.raises(SourceUnreadable) as caught:
            SchemaRegistry.named("main").schema(2**31, HERE)
    assert str(caught.value) == (
        f"{HERE}: the schema registry 'main' has no id 2147483648. Rule: messages are read by the schema with which "
        "they were written, or not at all. Remedy: check that INCLOAD_REGISTRY_MAIN_URL is the registry that the "
        "producer uses; if the schema was deleted for good, restore it there."
    )
    assert len(gate.paths) == 2


def test_accounts_are_taken_from_variables_files_and_tokens_and_never_shown(
    registry: Registry, gate: Gate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    number = registry.register("accounts", record("Account", id="int"))
    monkeypatch.setenv("INCLOAD_REGISTRY_MAIN_PASSWORD", f"wrong-{PASSWORD}")
    with pytest.raises(
        SourceUnreadable, match=r"refuses the account \(status 401\)\. Rule: .*_MAIN_TOKEN\.$"
    ) as caught:
        SchemaRegistry.named("main").schema(number, HERE)
    assert PASSWORD not in str(caught.value) and PASSWORD not in repr(SchemaRegistry.named("main"))
    (tmp_path / "secret").write_text(f"{PASSWORD}\n")
    monkeypatch.delenv("INCLOAD_REGISTRY_MAIN_PASSWORD")
    monkeypatch.setenv("INCLOAD_REGISTRY_MAIN_PASSWORD_FILE", str(tmp_path / "secret"))
    assert SchemaRegistry.named("main").schema(number, HERE)
    schema_registry.forget()
    for name in ("USER", "PASSWORD_FILE"):
        monkeypatch.delenv(f"INCLOAD_REGISTRY_MAIN_{name}")
    monkeypatch.setenv("INCLOAD_REGISTRY_MAIN_TOKEN", TOKEN)
    assert SchemaRegistry.named("main").schema(number, HERE)


def test_a_busy_registry_is_asked_again_and_one_that_stays_busy_is_unavailable(registry: Registry, gate: Gate) -> None:
    number = registry.register("busy", record("Busy", id="int"))
    gate.answers = [(503, {}, b"later"), (429, {}, b"")]
    assert SchemaRegistry.named("main").schema(number, HERE)
    assert len(gate.paths) == schema_registry.ATTEMPTS
    schema_registry.forget()
    gate.answers = [(500, {}, b"<html>")] * schema_registry.ATTEMPTS
    with pytest.raises(
        SourceUnavailable, match=r"'main' does not answer \(status 500\)\. .* INCLOAD_REGISTRY_MAIN_URL"
    ):
        SchemaRegistry.named("main").schema(number, HERE)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ((200, {}, b"<html>welcome</html>"), "none of a schema registry.*Apicurio's ends in /apis/ccompat/v7"),
        ((200, {}, b'{"id": 1}'), "none of a schema registry"),
        ((200, {}, b'{"schema": "{}", "references": [7]}'), "none of a schema registry"),
        ((302, {"Location": "http://127.0.0.1:9/"}, b""), "status 302.*the account would go along"),
        ((400, {}, b"no"), "status 400"),
        ((403, {}, b""), r"refuses the account \(status 403\)"),
    ],
)
def test_an_answer_that_no_registry_gives_is_refused_at_once(
    gate: Gate, answer: tuple[int, dict[str, str], bytes], says: str
) -> None:
    gate.answers = [answer] * schema_registry.ATTEMPTS
    with pytest.raises(SourceUnreadable, match=says):
        SchemaRegistry.named("main").schema(1, HERE)
    assert len(gate.paths) == 1


def test_a_registry_out_of_reach_and_one_that_hangs_are_unavailable(
    registry: Registry, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_registry, "REQUEST_SECONDS", 0.3)
    with switched(registry.port) as switch:
        monkeypatch.setenv("INCLOAD_REGISTRY_MAIN_URL", f"http://127.0.0.1:{switch.port}{PATH}")
        switch.hang()
        with pytest.raises(SourceUnavailable, match="does not answer"):
            SchemaRegistry.named("main").schema(1, HERE)
        switch.down()
        with pytest.raises(SourceUnavailable, match=r"does not answer \(ConnectionRefusedError\)"):
            SchemaRegistry.named("main").schema(1, HERE)


def test_a_private_authority_is_trusted_only_if_it_is_named(
    registry: Registry, gate: Gate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    number = registry.register("tls", record("Tls", id="int"))
    authority = Authority(tmp_path)
    with tls_in_front_of(gate.port, authority.issue()) as port:
        monkeypatch.setenv("INCLOAD_REGISTRY_MAIN_URL", f"https://localhost:{port}{PATH}")
        with pytest.raises(SourceUnreadable, match=r"certificate .* is not trusted.*INCLOAD_REGISTRY_MAIN_CA"):
            SchemaRegistry.named("main").schema(number, HERE)
        monkeypatch.setenv("INCLOAD_REGISTRY_MAIN_CA", str(authority.certificate))
        assert SchemaRegistry.named("main").schema(number, HERE)
        schema_registry.forget()
        monkeypatch.setenv("INCLOAD_REGISTRY_MAIN_CA", str(tmp_path / "nowhere.pem"))
        with pytest.raises(SourceUnreadable, match=r"the file of INCLOAD_REGISTRY_MAIN_CA cannot be read"):
            SchemaRegistry.named("main").schema(number, HERE)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({}, "INCLOAD_REGISTRY_MAIN_URL is not set"),
        ({"URL": "registry:8081"}, "is no http address"),
        ({"URL": "http://"}, "is no http address"),
        ({"URL": "http://registry:port"}, "is no http address"),
        ({"URL": "http://registry:8081/?a=b"}, "is no http address"),
        ({"URL": "http://me:not-to-be-shown@registry:8081"}, "holds an account"),
        ({"URL": "http://registry", "USER": "me"}, "only one is set"),
        ({"URL": "http://registry", "PASSWORD": "not-to-be-shown"}, "only one is set"),
        ({"URL": "http://registry", "USER": "me", "PASSWORD": "x", "TOKEN": "not-to-be-shown"}, "are set"),
        ({"URL": "http://registry", "USER": "m:e", "PASSWORD": "not-to-be-shown"}, "USER has a colon"),
        ({"URL": "http://registry", "TOKEN": "not-to-be-shown\nX: y"}, "TOKEN has a character that no header can have"),
        ({"URL": "http://registry", "TOKEN_FILE": "/nowhere/not-to-be-shown"}, "cannot be read"),
    ],
)
def test_wrong_variables_are_named_without_their_values(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], says: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"INCLOAD_REGISTRY_MAIN_{name}", value)
    with pytest.raises(SourceUnreadable, match=says) as caught:
        SchemaRegistry.named("main")
    assert str(caught.value).startswith("schema registry 'main': ") and "not-to-be-shown" not in str(caught.value)

from __future__ import annotations

from pathlib import Path

from fencepost.embedded.properties import (
    CLIENT,
    CONTROLLER,
    INTERNAL,
    BrokerListener,
    NodePlace,
    render,
    server_properties,
)


def place(node_id: int) -> NodePlace:
    ports = {CLIENT: 1000 + node_id, "PROXIED": 2000 + node_id, INTERNAL: 3000 + node_id, CONTROLLER: 4000 + node_id}
    return NodePlace(node_id, Path(f"/data/node-{node_id}"), ports)


def test_nodes_know_each_other_and_advertise_the_proxy_in_place_of_their_port() -> None:
    places = [place(1), place(2), place(3)]
    listeners = [BrokerListener(CLIENT), BrokerListener("PROXIED", advertised_ports=[91, 92, 93])]

    properties = server_properties(places[1], places, listeners, {})

    assert properties["node.id"] == "2"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:4001,2@127.0.0.1:4002,3@127.0.0.1:4003"
    assert properties["listeners"].split(",")[:2] == ["CLIENT://127.0.0.1:1002", "PROXIED://127.0.0.1:2002"]
    assert "PROXIED://127.0.0.1:92" in properties["advertised.listeners"].split(",")
    assert properties["transaction.state.log.replication.factor"] == "3"
    assert properties["transaction.state.log.min.isr"] == "2"


def test_a_listener_has_its_own_properties_and_extra_ones_win() -> None:
    listener = BrokerListener("SASL", "SASL_SSL", properties={"ssl.keystore.location": "/k"})
    node = NodePlace(1, Path("/data"), {"SASL": 1, INTERNAL: 2, CONTROLLER: 3})

    properties = server_properties(node, [node], [listener], {"num.io.threads": "9"})

    assert properties["listener.name.sasl.ssl.keystore.location"] == "/k"
    assert properties["listener.security.protocol.map"] == "SASL:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT"
    assert properties["num.io.threads"] == "9"


def test_backslashes_survive_the_properties_file() -> None:
    assert render({"a": "C:\\b"}) == "a=C:\\\\b\n"


def test_values_are_ascii_in_the_properties_file() -> None:
    assert render({"a": "/d\u00e4ta \U0001f600"}) == "a=/d\\u00e4ta \\ud83d\\ude00\n"

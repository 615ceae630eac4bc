"""Malformed requests to a worker's REST API, for hypothesis."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from urllib.parse import quote

from hypothesis import strategies as st

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
CONNECTOR = {"connector.class": "FileStreamSource", "file": "/no/such/file", "topic": "t"}

_JSON = "application/json"


@dataclass(frozen=True)
class Request:
    """A request; the path and the query are percent-encoded as they are sent."""

    method: str
    path: str
    body: bytes | None = field(default=None, repr=True)
    headers: dict[str, str] = field(default_factory=dict)


def requests(known: str) -> st.SearchStrategy[Request]:
    """Requests to a worker that has a stopped connector named `known`: half of them are almost valid."""
    return st.one_of(_operations(known), _anything(known))


def _segments(known: str) -> st.SearchStrategy[str]:
    # Four of the longest texts fit into the 8,190 bytes of a request line that aiohttp reads. It answers a longer line
    # before it knows the method, so even a HEAD gets a body.
    odd = ["unknown", "0", "FileStreamSource", "root", "%FF", "%2F", "%2f..%2f", "%25", "%00", "%ED%A0%80", "%", "%zz",
           "..", ".", ";a=b", "%20", "%0A", "%E2%80%AE", "x" * 2_000, "%C3%A4%CC%88"]  # fmt: skip
    text = st.text(min_size=1, max_size=8).map(lambda text: quote(text.encode("utf-8", "replace"), safe=""))
    return st.sampled_from([known, *odd]) | text


def _paths(known: str) -> st.SearchStrategy[str]:
    segments = _segments(known)
    below = st.sampled_from(
        ["", "/", "/config", "/status", "/tasks", "/topics", "/topics/reset", "/offsets", "/restart", "/pause", "/stop",
         "/resume", "/fence", "/transactions", "/transactions/local", "/tasks/0/status", "/tasks/999999999/restart",
         "/tasks/-1/status", "/tasks/99999999999999999999/status", "/tasks/%D9%A3/status"]
    )  # fmt: skip
    validate = st.sampled_from(["", "/validate"])
    return st.one_of(
        st.sampled_from(["/", "//", "/health", "/metrics", "/connectors", "/connector-plugins", "/admin/loggers"]),
        st.builds(lambda name, rest: f"/connectors/{name}{rest}", segments, below),
        st.builds(lambda name, rest: f"/connector-plugins/{name}/config{rest}", segments, validate),
        st.builds(lambda name: f"/admin/loggers/{name}", segments),
        st.lists(segments, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts)),
    )


_queries = st.sampled_from(
    ["", "?expand=status", "?expand=", "?expand=status&expand=%00", "?includeTasks=true", "?onlyFailed=banana",
     "?forward=x", "?version=1", "?version=%5B", "?%FF=%", "?&&=&", "?scope=cluster", "?connectorsOnly=false", "?" * 9]
)  # fmt: skip

_json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63, -(2**64), 10**400, 1e308, -0.0])
    | st.floats()
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
_properties = st.sampled_from(
    ["name", "connector.class", "tasks.max", "transforms", "predicates", "transforms.a.type", "key.converter",
     "topic.creation.groups", "exactly.once.support", "producer.override.acks", "batch.size", "file", "topic",
     "value.converter.schemas.enable", "transforms.a.predicate", "transaction.boundary", "offsets.storage.topic",
     "errors.tolerance", "header.converter", "topic.creation.default.partitions",
     "transforms.a.topic.regex", "consumer.override.sasl.jaas.config", "", "\x00"]
)  # fmt: skip


def _values(known: str) -> st.SearchStrategy[object]:
    texts = ["a", known, "", "JsonConverter", "Cast$Value", "a,b", "1", "-1", "9" * 30, "required", "${env:HOME}", "${",
             "${file:/etc/passwd:root}", "RegexRouter", "[", "\x00", "\ud800", "os.system", "fencepost", "é" * 40]  # fmt: skip
    return st.sampled_from(texts) | _json_values


def _configs(known: str) -> st.SearchStrategy[dict[str, object]]:
    return st.dictionaries(_properties, _values(known), max_size=4).map(lambda given: {**CONNECTOR, **given})


def _creations(known: str) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries(
        {"name": _values(known), "config": _configs(known)},
        # A running connector would outlive its test.
        optional={"initial_state": st.sampled_from(["stopped", "STOPPED"]) | _json_values},
    ).map(lambda given: {"initial_state": "STOPPED", **given})


_offsets = st.fixed_dictionaries({"partition": _json_values, "offset": _json_values})
_alterations = st.fixed_dictionaries({"offsets": st.lists(_offsets, max_size=2) | _json_values})
_levels = st.fixed_dictionaries({"level": st.sampled_from(["INFO", "no", "warn ", "0"]) | _json_values})
_malformed = st.sampled_from(
    [b"[" * 100_000, b'{"a":' * 50_000, b"{", b"\xff\xfe{}", b"\xef\xbb\xbf{}", b'{"level": NaN}', b'{"config": 1e999}',
     b'{"a": "\\ud800"}', b'{"name": "x", "name": "y", "config": {}}', b"9" * 10_000, b"\x00", b"null", b'""', b" "]
)  # fmt: skip


def _encoded(body: object) -> bytes:
    return json.dumps(body).encode()


_headers = st.dictionaries(
    st.sampled_from(
        ["Accept", "Content-Type", "X-Connect-Authorization", "X-Connect-Request-Signature-Algorithm",
         "Content-Encoding", "Authorization", "Host", "Range", "If-Match"]
    ),
    st.sampled_from(
        [_JSON, "*/*", "text/plain", ";", "HmacSHA256", "AAAA", "=", "a/b;q=0", "gzip", "application/json; charset=x",
         "Basic AAAA", "multipart/form-data", "bytes=0-", ""]
    ),
    max_size=3,
)  # fmt: skip


def _operations(known: str) -> st.SearchStrategy[Request]:
    configs = _configs(known)
    nearly_right = [
        ("POST", "/connectors", _creations(known)),
        ("PUT", f"/connectors/{known}/config", configs),
        ("PATCH", f"/connectors/{known}/config", configs),
        ("PATCH", f"/connectors/{known}/offsets", _alterations),
        ("PUT", "/connector-plugins/FileStreamSource/config/validate", configs),
        ("PUT", "/admin/loggers/some.logger", _levels),
        ("POST", f"/connectors/{known}/tasks", st.lists(configs, max_size=2)),
    ]
    return st.one_of(
        st.builds(
            Request,
            st.just(method),
            st.just(path),
            (body | _json_values).map(_encoded),
            st.just({"Content-Type": _JSON}),
        )
        for method, path, body in nearly_right
    )


def _anything(known: str) -> st.SearchStrategy[Request]:
    encoded = st.one_of(_configs(known), _creations(known), _alterations, _levels, _json_values).map(_encoded)
    bodies = st.one_of(st.none(), st.binary(max_size=12), _malformed, encoded)
    paths = st.builds(str.__add__, _paths(known), _queries)
    return st.builds(Request, st.sampled_from(METHODS), paths, bodies, _headers)

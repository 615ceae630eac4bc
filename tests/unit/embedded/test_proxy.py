"""The environment's proxy settings become Java system properties."""

from __future__ import annotations

import pytest

from fencepost.embedded.errors import JarsUnavailableError
from fencepost.embedded.proxy import proxy_options


@pytest.mark.parametrize(
    ("environment", "options"),
    [
        ({}, []),
        ({"https_proxy": " "}, []),
        ({"https_proxy": "http://p:3128"}, ["https.proxyHost=p", "https.proxyPort=3128"]),
        ({"HTTPS_PROXY": "p:3128/"}, ["https.proxyHost=p", "https.proxyPort=3128"]),
        ({"https_proxy": "http://[::1]"}, ["https.proxyHost=::1", "https.proxyPort=80"]),
        ({"https_proxy": "http://p:1", "JAVA_TOOL_OPTIONS": "-Dhttps.proxyHost=q"}, []),
        (
            {"https_proxy": "http://p:1", "no_proxy": "localhost, .a.org,*"},
            ["https.proxyHost=p", "https.proxyPort=1", "http.nonProxyHosts=localhost|*.localhost|a.org|*.a.org|*"],
        ),
    ],
)
def test_the_variables_of_curl_and_pip_are_read(environment: dict[str, str], options: list[str]) -> None:
    assert proxy_options(environment) == [f'"-D{option}"' for option in options]


@pytest.mark.parametrize("address", ["http://", "socks5://p:1", "http://p:port", "http://[::1"])
def test_an_address_that_is_none_is_refused_without_showing_it(address: str) -> None:
    with pytest.raises(JarsUnavailableError, match="set it as http://HOST:PORT"):
        proxy_options({"https_proxy": address})

"""Java's options for the proxy that the environment names: Java itself does not read https_proxy and no_proxy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

from fencepost.embedded.errors import JarsUnavailableError

_DEFAULT_PORT: Final = 80
_OF_JAVA: Final = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")


def proxy_options(environment: Mapping[str, str]) -> list[str]:
    """Return lines for a Java argument file that set the proxy of `https_proxy`; none if no proxy is set.

    The variables are the same as for curl and pip: `https_proxy` or HTTPS_PROXY as `http://user:password@host:port`,
    and `no_proxy`. A proxy in Java's own options takes precedence. Raises JarsUnavailableError for an invalid address.
    """
    given = _variable(environment, "https_proxy")
    if not given or any("proxyHost" in environment.get(name, "") for name in _OF_JAVA):
        return []
    try:
        parts = urlsplit(given if "://" in given else f"http://{given}")
        host, port = parts.hostname, parts.port or _DEFAULT_PORT
    except ValueError:
        host = port = None
    if host is None or parts.scheme != "http":
        raise JarsUnavailableError(
            "https_proxy is not the address of an HTTP proxy: set it as http://HOST:PORT, or unset it to go without one"
        )
    options = {"https.proxyHost": host, "https.proxyPort": str(port)}
    if hosts := _hosts_without_proxy(_variable(environment, "no_proxy")):
        options["http.nonProxyHosts"] = hosts
    if parts.username is not None:
        # Ivy reads these properties. By default Java refuses to send passwords for tunnels, so that is allowed as well.
        options["http.proxyUser"] = unquote(parts.username)
        options["http.proxyPassword"] = unquote(parts.password or "")
        options["jdk.http.auth.tunneling.disabledSchemes"] = ""
    return [_quoted(f"-D{name}={value}") for name, value in options.items()]


def _variable(environment: Mapping[str, str], name: str) -> str:
    return (environment.get(name) or environment.get(name.upper()) or "").strip()


def _hosts_without_proxy(text: str) -> str:
    """Return no_proxy in Java's form: `.example.com` also includes the hosts below it, `*` is a wildcard."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    return "|".join(f"{name}|*.{name}" if name != "*" else name for name in (name.lstrip(".") for name in names))


def _quoted(option: str) -> str:
    escaped = option.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "")
    return f'"{escaped}"'

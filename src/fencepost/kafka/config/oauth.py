"""The source of tokens for SASL/OAUTHBEARER: a token endpoint (KIP-768), or unsigned tokens for development."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from fencepost.api.errors import ConfigError

ENDPOINT: Final = "sasl.oauthbearer.token.endpoint.url"


@dataclass(frozen=True, slots=True)
class OAuthConfig:
    """The source of tokens: client credentials for `endpoint`; without `endpoint`, unsigned tokens for `subject`."""

    endpoint: str | None = None
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str | None = None
    subject: str | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], options: Mapping[str, str]) -> OAuthConfig:
        """Read the endpoint's property and the JAAS `options`. Raises ConfigError that names the missing part."""
        endpoint = properties.get(ENDPOINT)
        if endpoint is None:
            subject = options.get("unsecuredLoginStringClaim_sub")
            if subject is None:
                raise ConfigError(
                    f"OAUTHBEARER takes {ENDPOINT} with clientId and clientSecret in sasl.jaas.config, or, for "
                    "development only, unsecuredLoginStringClaim_sub in sasl.jaas.config",
                    name=ENDPOINT,
                )
            return cls(subject=subject)
        if urllib.parse.urlsplit(endpoint).scheme not in ("http", "https"):
            raise ConfigError(f"{ENDPOINT}={endpoint} is not an http or https address", name=ENDPOINT)
        missing = [name for name in ("clientId", "clientSecret") if name not in options]
        if missing:
            raise ConfigError(
                f"sasl.jaas.config has no {' and no '.join(missing)}, which {ENDPOINT} needs", name="sasl.jaas.config"
            )
        return cls(endpoint, options["clientId"], options["clientSecret"], options.get("scope"))

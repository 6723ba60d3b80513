"""The kernel's environment variables for a sidecar's process."""

from __future__ import annotations

from collections.abc import Mapping

_INHERITED = frozenset("HOME PATH SHELL TERM USER LOGNAME LANG LANGUAGE TZ TMPDIR".split())
"""Variables without secrets, which do not lead to the kernel's packages."""

_FOR_INSTALLERS = frozenset(
    "HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY SSL_CERT_FILE SSL_CERT_DIR REQUESTS_CA_BUNDLE CURL_CA_BUNDLE "
    "XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME".split()
)
_PREFIXES_FOR_INSTALLERS = ("PIP_", "UV_", "NPM_CONFIG_")
_NOT_FOR_INSTALLERS = frozenset({"PIP_TARGET", "PIP_PREFIX", "PIP_USER", "UV_PROJECT_ENVIRONMENT", "UV_SYSTEM_PYTHON"})
"""Variables which would redirect an installation to another environment."""


def sidecar_environment(environment: Mapping[str, str], additions: Mapping[str, str]) -> dict[str, str]:
    """Return a sidecar's environment: harmless kernel variables, and its own."""
    return {**_kept(environment), **additions}


def installer_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for installing packages.

    It also has proxies, certificates, and package sources.
    """
    settings = {
        name: value
        for name, value in environment.items()
        if (name.upper() in _FOR_INSTALLERS or name.upper().startswith(_PREFIXES_FOR_INSTALLERS))
        and name not in _NOT_FOR_INSTALLERS
    }
    return {**_kept(environment), **settings}


def _kept(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if (name in _INHERITED or name.startswith("LC_")) and not value.startswith("()")
    }

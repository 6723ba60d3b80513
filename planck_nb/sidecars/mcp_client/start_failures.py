"""Sentences that say why a sidecar was not connected, or was lost."""

from __future__ import annotations

from planck_nb.base.errors import SidecarError
from planck_nb.base.secrets import redact
from planck_nb.base.text import one_line
from planck_nb.base.visible import visible
from planck_nb.sidecars.mcp_client.log_lines import LogLines
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec

_REASON_CHARACTERS = 500
_DENIED = (401, 403)
_WRONG_HOST = 421


def start_failure(
    spec: SidecarSpec, error: BaseException | None, *, http_status: int, lost: str, log: LogLines
) -> SidecarError:
    """Return the error of a start that failed.

    Args:
        spec: The sidecar.
        error: What ended the connection, None if nothing was raised.
        http_status: The status with which a server over HTTP refused, 0 if it did not.
        lost: Why the connection was lost.
        log: What the sidecar wrote.
    """
    if isinstance(error, SidecarError) and str(error).startswith("The sidecar"):
        return error
    found = _innermost(error)
    if http_status in _DENIED:
        named = f" in {spec.token_variable}" if spec.token_variable else ""
        reason = f"rejected the credentials (HTTP {http_status}); give it the right token{named}"
    elif http_status == _WRONG_HOST:
        reason = "does not accept this host name (HTTP 421); use the address that it was started with"
    elif http_status:
        reason = f"answered with HTTP {http_status}; check its address {spec.url}"
    elif found is not None and type(found).__module__.startswith("httpx2"):
        reason = f"cannot be reached at {spec.url} ({found or type(found).__name__}); check that it runs"
    else:
        reason = f"did not start: {lost}"
    return SidecarError(with_last_line(f"The sidecar {spec.name} {reason}.", spec, log))


def with_last_line(sentence: str, spec: SidecarSpec, log: LogLines) -> str:
    """Return the sentence, with the last line that the process of the sidecar wrote."""
    lines = [line for line in log.lines(20) if line.strip()] if spec.command else []
    return f"{sentence} It wrote: {one_line(lines[-1], _REASON_CHARACTERS)}" if lines else sentence


def reason_of_end(error: BaseException | None) -> str:
    """Return why a connection ended, without a full stop, given what ended it."""
    found = _innermost(error)
    if found is None:
        return "the connection was closed"
    return one_line(visible(redact(str(found))) or type(found).__name__, _REASON_CHARACTERS).rstrip(".")


def _innermost(error: BaseException | None) -> BaseException | None:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

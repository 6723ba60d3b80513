"""Sentences about failed starts and lost sidecars."""

from __future__ import annotations

from planck_nb.ai.server_address import shown_url
from planck_nb.base.errors import SidecarError
from planck_nb.base.secrets import redact
from planck_nb.base.text import one_line
from planck_nb.base.visible import visible
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec
from planck_nb.sidecars.mcp_client.transports.log_lines import LogLines

_REASON_CHARACTERS = 500
_DENIED = (401, 403)
_WRONG_HOST = 421


def start_failure(
    spec: SidecarSpec, error: BaseException | None, *, http_status: int, lost: str, log: LogLines
) -> SidecarError:
    """Return the error for a failed start.

    Args:
        spec: The sidecar.
        error: The exception at the connection's end, if any.
        http_status: The status with which a server over HTTP refused, otherwise 0.
        lost: The reason for the connection's loss.
        log: The sidecar's log.
    """
    if isinstance(error, SidecarError) and str(error).startswith("The sidecar"):
        return error
    cause = _innermost(error)
    if http_status in _DENIED:
        place = f" in {spec.token_variable}" if spec.token_variable else ""
        reason = f"rejected the credentials (HTTP {http_status}); give it the right token{place}"
    elif http_status == _WRONG_HOST:
        reason = "does not accept this host name (HTTP 421); use the address that it was started with"
    elif http_status:
        reason = f"answered with HTTP {http_status}; check its address {shown_url(spec.url)}"
    elif cause is not None and type(cause).__module__.startswith("httpx2"):
        details = str(cause).replace(spec.url, shown_url(spec.url)) or type(cause).__name__
        reason = f"cannot be reached at {shown_url(spec.url)} ({details}); check that it runs"
    else:
        reason = f"did not start: {lost}"
    return SidecarError(with_last_line(f"The sidecar {spec.name} {reason}.", spec, log))


def with_last_line(sentence: str, spec: SidecarSpec, log: LogLines) -> str:
    """Return the sentence, with the sidecar process's last line."""
    lines = [line for line in log.lines(20) if line.strip()] if spec.command else []
    return f"{sentence} It wrote: {one_line(lines[-1], _REASON_CHARACTERS)}" if lines else sentence


def reason_of_end(error: BaseException | None) -> str:
    """Return why a connection ended, without a full stop."""
    cause = _innermost(error)
    if cause is None:
        return "the connection was closed"
    text = one_line(visible(redact(str(cause))) or type(cause).__name__, _REASON_CHARACTERS).rstrip(".")
    if type(cause).__module__.startswith("mcp."):
        from planck_nb.sidecars.mcp_client.transports.open_requests import is_not_mcp  # noqa: PLC0415 - loads mcp

        if is_not_mcp(getattr(cause, "error", None)):
            return f"it answered with something that is not MCP: {text}"
    return text


def _innermost(error: BaseException | None) -> BaseException | None:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error

"""Signs in to a server with OAuth on its demand.

The SDK speaks the protocol; this asks the person.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.shared.auth import (
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthMetadata,
    OAuthToken,
    ProtectedResourceMetadata,
)
from pydantic import AnyUrl

from planck_nb.ai.server_address import shown_host
from planck_nb.base.async_tasks import cancel_and_wait
from planck_nb.base.errors import SidecarError, SidecarSignInError
from planck_nb.base.secrets import redact, remember_secret
from planck_nb.base.text import one_line
from planck_nb.base.visible import visible
from planck_nb.sidecars.mcp_client.link.authorization import Person
from planck_nb.sidecars.mcp_client.link.questions import Question, QuestionAnswer
from planck_nb.sidecars.mcp_client.oauth.address_kinds import AddressKind, kind_of
from planck_nb.sidecars.mcp_client.oauth.checked_requests import CheckedTransport, SignInNetwork
from planck_nb.sidecars.mcp_client.oauth.sign_in_callback import address, free_port, listening, parameters
from planck_nb.sidecars.mcp_client.oauth.token_file import TokenFile
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec
from planck_nb.sidecars.mcp_client.transports.http_transport import SERVER_ADDRESS

_REASON_CHARACTERS = 300
_EARLY = 30.0
"""Seconds before its expiry at which a token is renewed."""

_PKCE = "S256"
_TIMEOUT = httpx2.Timeout(30.0, connect=5.0)

_SCHEMA = {
    "type": "object",
    "properties": {
        "address": {
            "type": "string",
            "title": "Address",
            "description": "Only if the browser runs on another computer: the address at which it ended.",
        }
    },
}
_HOST_SCHEMA = {
    "type": "object",
    "properties": {
        "host": {
            "type": "string",
            "title": "Host",
            "description": "The host's name, if it belongs to a network that you know.",
        }
    },
    "required": ["host"],
}


class OAuthSignIn(httpx2.Auth):
    """Signs in to a connection's server.

    Args:
        spec: The sidecar.
        person: The person to sign in.
        folder: The folder for tokens.
        seconds: Time for the sign-in.
        network: The network for its requests.
    """

    requires_response_body = True

    def __init__(
        self,
        spec: SidecarSpec,
        person: Person,
        folder: Path,
        *,
        seconds: float,
        network: SignInNetwork | None = None,
    ) -> None:
        self._spec = spec
        self._person = person
        self._seconds = seconds
        self._file = TokenFile(folder, spec.url)
        self._port = 0
        self._visit = ""
        self._metadata = OAuthClientMetadata(redirect_uris=[AnyUrl(address(1))], client_name="planck_nb")
        self._provider = OAuthClientProvider(
            spec.url,
            self._metadata,
            storage=self,
            redirect_handler=self._keep_address,
            callback_handler=self._sign_in,
            client_metadata_url=spec.oauth.metadata_url or None,
        )
        self._transport = CheckedTransport(spec.name, network or SignInNetwork(), self._is_confirmed)

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """Send a request with the token, after a sign-in on demand.

        Raises:
            SidecarSignInError: The sign-in failed.
        """
        flow = self._provider.async_auth_flow(request)
        is_required = False
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing is request:
                    response = yield outgoing
                    self._transport.server_kind = kind_of(response.extensions.get(SERVER_ADDRESS, ""))
                    is_required = True
                else:
                    response = await self._sent(outgoing, is_required=is_required)
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            return
        except SidecarSignInError as error:
            self._person.failed(error)
            raise
        except (OAuthFlowError, ValueError, httpx2.InvalidURL) as error:  # ValueError is pydantic's, about an answer
            reason = one_line(visible(redact(str(error))), _REASON_CHARACTERS).rstrip(".")
            failure = SidecarSignInError(
                f"The sidecar {self._spec.name} requires a sign-in, which failed: {reason}. Start it again."
            )
            self._forget()
            self._person.failed(failure)
            raise failure from error
        finally:
            await flow.aclose()

    async def _sent(self, request: httpx2.Request, *, is_required: bool) -> httpx2.Response:
        """Send one of the sign-in's own requests.

        A failed connection ends the sign-in; before the server has required one, it may be a pause of the network.
        """
        if request.method == "POST":
            self._check_authorization_server(request)
        elif self._transport.server_kind is not AddressKind.LOOPBACK and urlsplit(self._spec.url).scheme != "https":
            raise SidecarSignInError(
                f"The sidecar {self._spec.name} requires a sign-in, but its own address is not encrypted (http), and a "
                "token could be read on the way; use its https address."
            )
        async with httpx2.AsyncClient(transport=self._transport, timeout=_TIMEOUT) as client:
            if not is_required:
                return await client.send(request)
            with self._reaching(request.url):
                return await client.send(request)

    @contextmanager
    def _reaching(self, url: httpx2.URL) -> Iterator[None]:
        """Report a failed connection as a failed sign-in."""
        try:
            yield
        except httpx2.RequestError as error:
            details = one_line(visible(redact(str(error))), _REASON_CHARACTERS) or type(error).__name__
            raise SidecarSignInError(
                f"The sidecar {self._spec.name} requires a sign-in at {shown_host(str(url))}, which cannot be reached "
                f"({details}); start it again later."
            ) from error

    def _check_authorization_server(self, request: httpx2.Request | None = None) -> None:
        """Check what the authorization server says about itself.

        PKCE is required by
        https://modelcontextprotocol.io/specification/2026-07-28/basic/authorization/security-considerations; servers
        without a word about it, such as Microsoft Entra, are used if the person names their issuer.

        Args:
            request: A request with a code, a token or a registration; None for the person's sign-in.

        Raises:
            SidecarSignInError: The sign-in is unsafe.
        """
        metadata, issuer = self._provider.context.oauth_metadata, self._spec.oauth.issuer
        if metadata is None:
            server, root = httpx2.URL(self._spec.url), b"/"
            if issuer and httpx2.URL(issuer).copy_with(raw_path=root) == server.copy_with(raw_path=root):
                return  # the protocol's first version has fixed addresses, all at the server itself
            raise self._unsafe(
                "does not describe its authorization server; if you know that the server itself is one, write its "
                "`issuer` into the entry"
            )
        if issuer and str(metadata.issuer).rstrip("/") != issuer.rstrip("/"):
            raise self._unsafe(
                f"wants a sign-in at {shown_host(str(metadata.issuer))}, but `issuer` in its entry is "
                f"{shown_host(issuer)}; correct one of them"
            )
        methods = metadata.code_challenge_methods_supported
        if _PKCE not in (methods or ()) and not (methods is None and issuer):
            raise self._unsafe(
                f"has an authorization server at {shown_host(str(metadata.issuer))} without PKCE "
                f"({_PKCE}), so a code could be used by others"
                + ("; if you know that server, write its `issuer` into the entry" if methods is None else "")
            )
        is_registration = request is not None and self._provider.context.client_info is None
        if is_registration and metadata.registration_endpoint is None:
            raise self._unsafe(
                f"has an authorization server at {shown_host(str(metadata.issuer))} where programs cannot register; "
                "register planck_nb there by hand, and write `clientId` and `issuer` into the entry"
            )

    def _unsafe(self, problem: str) -> SidecarSignInError:
        return SidecarSignInError(f"The sidecar {self._spec.name} {problem}.")

    # What the SDK stores.

    async def get_tokens(self) -> OAuthToken | None:
        """Return the stored tokens, and tell the SDK where to renew them."""
        record = self._file.read()
        with suppress(ValueError, TypeError):
            tokens = OAuthToken.model_validate(record.get("tokens"))
            if (metadata := record.get("authorization_server")) is not None:
                self._provider.context.oauth_metadata = OAuthMetadata.model_validate(metadata)
            if (metadata := record.get("resource")) is not None:
                self._provider.context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(metadata)
            if float(record.get("expires") or "inf") <= time.time():
                tokens.access_token = ""  # so that it is renewed: the SDK would take a loaded token for a valid one
            self._transport.server_kind = AddressKind(record.get("server", AddressKind.PUBLIC))
            self._keep_secret(tokens)
            return tokens
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Store tokens."""
        self._keep_secret(tokens)
        context = self._provider.context
        expires = None if tokens.expires_in is None else time.time() + tokens.expires_in - _EARLY
        self._file.update(
            tokens=tokens.model_dump(mode="json", exclude_none=True),
            expires=expires,
            authorization_server=_dumped(context.oauth_metadata),
            resource=_dumped(context.protected_resource_metadata),
            server=self._transport.server_kind.value,
        )

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """Return this program's registration, and choose the browser's return address."""
        client = None
        if self._spec.oauth.client_id:
            client = self._registered()
        else:
            with suppress(ValueError):
                client = OAuthClientInformationFull.model_validate(self._file.read().get("client"))
        registered_port = 0
        if client is not None and client.redirect_uris:
            registered_port = client.redirect_uris[0].port or 0
        chosen_port = self._spec.oauth.callback_port
        self._port = chosen_port or free_port(registered_port)
        if client is not None and not self._spec.oauth.client_id and registered_port != self._port:
            client = None  # servers compare the address with the registered one, so it is registered again
        self._metadata.redirect_uris = [AnyUrl(address(self._port))]
        if client is not None and client.client_secret:
            remember_secret(client.client_secret, f"the client secret of the sidecar {self._spec.name}")
        return client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Store this program's registration at the server."""
        self._file.update(client=client_info.model_dump(mode="json", exclude_none=True))

    def _registered(self) -> OAuthClientInformationFull:
        """Return the spec's settings for a client which was registered by hand."""
        settings = self._spec.oauth
        method = "client_secret_basic" if settings.client_secret else "none"
        return OAuthClientInformationFull(
            client_id=settings.client_id,
            client_secret=settings.client_secret or None,
            token_endpoint_auth_method=method,
        )

    def _forget(self) -> None:
        """Forget the registration after a failed sign-in.

        The server may have forgotten it, too.
        """
        with suppress(SidecarError):
            if self._file.read().get("client") is not None:
                self._file.update(client=None, tokens=None)

    def _keep_secret(self, tokens: OAuthToken) -> None:
        for token in (tokens.access_token, tokens.refresh_token):
            remember_secret(token, f"a token of the sidecar {self._spec.name}")

    # The person.

    async def _keep_address(self, url: str) -> None:
        self._check_authorization_server()
        with self._reaching(page := httpx2.URL(url)):
            await self._transport.check(page)
        self._visit = url

    async def _is_confirmed(self, host: str, address: str) -> bool:
        """Return whether the person has confirmed an internal host, now or earlier."""
        confirmed_hosts = self._file.read().get("confirmed_hosts") or []
        if host in confirmed_hosts:
            return True
        name = self._spec.name
        question = Question(
            sidecar=name,
            message=(
                f"The sidecar {name} asks for requests to {shown_host(f'//{host}')}, whose IP address {address} is in "
                "an internal network, while the sidecar is not. Type the host's name if you expect that."
            ),
            schema=_HOST_SCHEMA,
            seconds=self._seconds,
        )
        answer = None
        with self._person.waiting(), suppress(TimeoutError):
            async with asyncio.timeout(self._seconds):
                answer = await _asked(self._person, question)
        if answer is None or answer.action != "accept":
            return False
        if str(answer.content.get("host") or "").strip().lower() != host:
            return False
        self._file.update(confirmed_hosts=[*confirmed_hosts, host])
        return True

    async def _sign_in(self) -> AuthorizationCodeResult:
        """Have the person sign in."""
        try:
            return await self._visit_result()
        except SidecarSignInError:
            self._forget()
            raise

    async def _visit_result(self) -> AuthorizationCodeResult:
        """Have the person visit the address, and wait for an answer.

        The browser comes back, or its address is pasted.
        """
        name, url = self._spec.name, self._visit
        [state] = parse_qs(urlsplit(url).query).get("state", [""])
        question = Question(
            sidecar=name,
            message=f"The sidecar {name} asks you to sign in at {shown_host(url)}.",
            schema=_SCHEMA,
            url=visible(url, lookalikes=True),
            seconds=self._seconds,
        )
        with self._person.waiting():
            async with listening(self._port, state) as arrival:
                asking = asyncio.create_task(_asked(self._person, question))
                try:
                    async with asyncio.timeout(self._seconds):
                        await asyncio.wait((arrival, asking), return_when=asyncio.FIRST_COMPLETED)
                        query = arrival.result() if arrival.done() else self._pasted(asking.result(), state)
                        query = query or await arrival
                except TimeoutError:
                    raise SidecarSignInError(
                        f"The sign-in to the sidecar {name} took more than {self._seconds:g} s; start it again."
                    ) from None
                finally:
                    await cancel_and_wait(asking)
        if "code" not in query:
            error = " ".join(filter(None, (query.get("error"), query.get("error_description"))))
            reason = one_line(visible(error), _REASON_CHARACTERS).rstrip(".")
            raise SidecarSignInError(f"The server of the sidecar {name} refused the sign-in: {reason}. Start it again.")
        return AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))

    def _pasted(self, answer: QuestionAnswer | None, state: str) -> Mapping[str, str]:
        """Return the pasted address's query, empty to wait for the browser."""
        name = self._spec.name
        if answer is None:
            raise SidecarSignInError(
                f"The sidecar {name} requires a person to sign in, and there is none; start it in a notebook with "
                f"`%planck sidecar start {name}`."
            )
        if answer.action != "accept":
            raise SidecarSignInError(f"The sign-in to the sidecar {name} was declined; start it again to sign in.")
        text = str(answer.content.get("address") or "").strip()
        query = parameters(text, state) if text else {}
        if query is None:
            raise SidecarSignInError(
                f"The address that was pasted does not belong to this sign-in to the sidecar {name}; start it again, "
                "and paste the whole address at which the browser ends."
            )
        return query


async def _asked(person: Person, question: Question) -> QuestionAnswer | None:
    try:
        return await person.ask(question)
    except Exception as error:
        raise SidecarSignInError(
            f"The sidecar {question.sidecar} requires a sign-in that cannot be shown: {type(error).__name__}: {error}."
        ) from error


def _dumped(metadata: OAuthMetadata | ProtectedResourceMetadata | None) -> Any:  # noqa: ANN401 - JSON
    return None if metadata is None else metadata.model_dump(mode="json", exclude_none=True)

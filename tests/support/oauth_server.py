"""An MCP server that wants a sign-in, with its authorization server, in one application."""

from __future__ import annotations

import base64
import hashlib
import secrets
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import urlencode

from mcp.server import MCPServer
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

Message = MutableMapping[str, Any]


class OAuthServer:
    """The server. `app` is to be served at `listener`."""

    def __init__(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.url = f"{self.address}/mcp"
        self.clients: dict[str, str | None] = {}
        self.registered = 0
        self.exchanges: list[str] = []
        self._codes: dict[str, str] = {}
        self._tokens: set[str] = set()
        self._renewals: set[str] = set()
        server = MCPServer("notes")
        server.tool()(whoami)
        app = server.streamable_http_app()
        app.routes.extend(
            [
                Route("/.well-known/oauth-protected-resource/mcp", self._resource),
                Route("/.well-known/oauth-authorization-server", self._metadata),
                Route("/register", self._register, methods=["POST"]),
                Route("/authorize", self._authorize),
                Route("/renewing/token", self._token, methods=["POST"]),
            ]
        )
        self._app = app

    def forget(self) -> None:
        """Forget all tokens."""
        self._tokens.clear()
        self._renewals.clear()

    async def app(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        """Serve a request; those of MCP need a token."""
        if scope["type"] == "http" and scope["path"] == "/mcp":
            given = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
            if given not in self._tokens:
                where = f"{self.address}/.well-known/oauth-protected-resource/mcp"
                response = Response(
                    status_code=401, headers={"WWW-Authenticate": f'Bearer resource_metadata="{where}"'}
                )
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _resource(self, _: Request) -> Response:
        return JSONResponse({"resource": self.url, "authorization_servers": [self.address]})

    async def _metadata(self, _: Request) -> Response:
        return JSONResponse(
            {
                "issuer": self.address,
                "authorization_endpoint": f"{self.address}/authorize",
                "token_endpoint": f"{self.address}/renewing/token",
                "registration_endpoint": f"{self.address}/register",
                "code_challenge_methods_supported": ["S256"],
            }
        )

    async def _register(self, request: Request) -> Response:
        self.registered += 1
        client = f"client-{secrets.token_hex(4)}"
        self.clients[client] = None
        return JSONResponse({**await request.json(), "client_id": client, "token_endpoint_auth_method": "none"}, 201)

    async def _authorize(self, request: Request) -> Response:
        given = request.query_params
        answer = {"state": given["state"]}
        if given["client_id"] not in self.clients:
            return Response("This client is not known.", 400)
        if "deny" in given:
            answer |= {"error": "access_denied", "error_description": "She said\u202e no"}
        else:
            answer["code"] = secrets.token_hex(8)
            self._codes[answer["code"]] = given["code_challenge"]
        return RedirectResponse(f"{given['redirect_uri']}?{urlencode(answer)}", 302)

    async def _token(self, request: Request) -> Response:
        form = await request.form()
        kind = str(form["grant_type"])
        if kind == "authorization_code":
            digest = hashlib.sha256(str(form["code_verifier"]).encode()).digest()
            proof = base64.urlsafe_b64encode(digest).decode().rstrip("=")
            allowed = self._codes.pop(str(form["code"]), None) == proof
        else:
            allowed = str(form["refresh_token"]) in self._renewals
        if not allowed:
            return JSONResponse({"error": "invalid_grant"}, 400)
        self.exchanges.append(kind)
        token, renewal = secrets.token_hex(16), secrets.token_hex(16)
        self._tokens.add(token)
        self._renewals.add(renewal)
        return JSONResponse(
            {"access_token": token, "token_type": "Bearer", "expires_in": 3_600, "refresh_token": renewal}
        )


async def whoami() -> str:
    """Return whether the caller has signed in."""
    return "signed in"

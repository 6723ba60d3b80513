"""Texts that would run a script, load something or follow a link if a renderer trusted them.

A script calls `fired(n)`; what is loaded has the address `{host}/n`. Addresses of scripts are `javascript:fired(n)`.
"""

from __future__ import annotations

from html.parser import HTMLParser

from support.markup_payloads import MARKUP

_HTML = (
    "<script>fired(@)</script>",
    "<SCRIPT>fired(@)</SCRIPT>",
    "<script src=&/@></script>",
    "<script\n>fired(@)</script\n>",
    "<script/x>fired(@)</script>",
    "<scr<script>ipt>fired(@)</script>",
    "<<script>fired(@)</script>",
    '"><script>fired(@)</script>',
    "'><script>fired(@)</script>",
    "</pre><script>fired(@)</script>",
    "</code></pre><script>fired(@)</script>",
    "</title><script>fired(@)</script>",
    "</style><script>fired(@)</script>",
    "</textarea><script>fired(@)</script>",
    "--><script>fired(@)</script>",
    "<!--><script>fired(@)</script>",
    "]]><script>fired(@)</script>",
    "<![CDATA[<script>fired(@)</script>]]>",
    "<?xml version='1.0'?><script>fired(@)</script>",
    "<img src=x onerror=fired(@)>",
    "<img/src=x/onerror=fired(@)>",
    "<img src=&/@>",
    "<img srcset='&/@ 1x'>",
    '" onerror="fired(@)" src="x',
    "' onmouseover='fired(@)' style='position:fixed;inset:0",
    '" autofocus onfocus=fired(@) tabindex=0 x="',
    "<image src=x onerror=fired(@)>",
    "<svg onload=fired(@)>",
    "<svg><script>fired(@)</script></svg>",
    "<svg><image href=&/@></svg>",
    "<svg><use href='data:image/svg+xml,<svg onload=fired(@)>'></svg>",
    "<svg><animate onbegin=fired(@) attributeName=x dur=1s></svg>",
    "<svg><style>@import '&/@'</style></svg>",
    "<svg><foreignObject><iframe src=javascript:fired(@)></iframe></foreignObject></svg>",
    "<math><mtext><img src=x onerror=fired(@)></mtext></math>",
    "<iframe src=javascript:fired(@)></iframe>",
    "<iframe srcdoc='<script>parent.fired(@)</script>'></iframe>",
    "<iframe src=&/@></iframe>",
    "<object data=&/@></object>",
    "<embed src=&/@>",
    "<video src=&/@ autoplay onerror=fired(@)></video>",
    "<audio src=&/@ autoplay></audio>",
    "<video poster=&/@></video>",
    "<input autofocus onfocus=fired(@)>",
    "<input type=image src=&/@>",
    "<body onload=fired(@)>",
    "<body background=&/@>",
    "<details open ontoggle=fired(@)>x</details>",
    "<marquee onstart=fired(@)>x</marquee>",
    "<link rel=stylesheet href=&/@>",
    "<link rel=preload as=image href=&/@>",
    "<style>body{background:url(&/@)}</style>",
    "<style>@import '&/@';</style>",
    "<div style='background:url(&/@)'>x</div>",
    "<meta http-equiv=refresh content='0;url=&/@'>",
    "<base href=&/>",
    "<form action=javascript:fired(@)><button autofocus onfocus=fired(@)>x</button></form>",
    "<a href=javascript:fired(@)>x</a>",
    "<a href=' &#106;avascript:fired(@)'>x</a>",
    "<template><script>fired(@)</script></template><script>fired(@)</script>",
    "<noscript><p title='</noscript><img src=x onerror=fired(@)>'></noscript>",
    "<table background=&/@><tr><td>x</table>",
    "<b onclick=fired(@) style='animation-name:x' onanimationstart=fired(@)>x</b>",
    "<https://x onmouseover=fired(@)>",
    "<javascript:fired(@)>",
)
_MARKDOWN = (
    "![x](&/@)",
    "![x](<&/@>)",
    "![x][r@]\n\n[r@]: &/@",
    "[![x](&/@)](javascript:fired(@))",
    "[x](javascript:fired(@))",
    "[x](<javascript:fired(@)>)",
    "[x]( \njavascript:fired(@))",
    "[x](java&#115;cript:fired(@))",
    "[x](JaVaScRiPt:fired(@) 'title')",
    "[x](vbscript:fired(@))",
    "[x](data:text/html,<script>fired(@)</script>)",
    "[x](https://x.test/\"onmouseover=fired(@) 'y')",
    "[x][r@]\n\n[r@]: javascript:fired(@)",
    "[r@]: <javascript:fired(@)>\n[r@]",
    "`\n\n<script>fired(@)</script>\n\n`",
    "`` ` `` <img src=x onerror=fired(@)> `",
    "`<script>fired(@)</script>",
    "\\`<script>fired(@)</script>\\`",
    "```\n```\n<script>fired(@)</script>\n```\n```",
    "~~~\n```\n~~~\n<img src=x onerror=fired(@)>\n```",
    "- ```\n<script>fired(@)</script>\n  ```",
    "```mermaid\n<img src=x onerror=fired(@)>\n```",
    '```mermaid\ngraph LR; A["<img src=\'&/@\'>"]; click A href "javascript:fired(@)"\n```',
    "```{=html}\n<script>fired(@)</script>\n```",
    "`<script>fired(@)</script>`{=html}",
    "$$\n```\n$$<script>fired(@)</script>\n```",
    "\\begin{a}\n```\n\\end{a}<img src=x onerror=fired(@)>\n```",
    "$\\href{javascript:fired(@)}{x}$",
    '$\\style{background-image:url(&/@)}{x}$ $$\\class{a" onmouseover=fired(@)}{x}$$',
    "| a |\n|---|\n| `|<script>fired(@)</script>` |",
    "x\n: <script>fired(@)</script>",
    "> <script>\n> fired(@)</script>",
    "    code\n\n\t<script>fired(@)</script>",
    "[^1]: <img src=x onerror=fired(@)>\n\n[^1]",
)
_ALL = (*_HTML, *_MARKDOWN, *MARKUP)
COUNT = len(_ALL)


def payloads(host: str = "http://127.0.0.1:1") -> list[str]:
    """All texts; what they load is from `host`."""
    return [text.replace("&/", f"{host}/").replace("@", str(number)) for number, text in enumerate(_ALL)]


class Findings(HTMLParser):
    """What is dangerous in a page: elements that run, load or navigate, and such attributes."""

    RUNNING = frozenset(
        "script iframe object embed link meta base form input button video audio image math foreignobject marquee "
        "template noscript body html frame frameset applet".split()
    )

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in self.RUNNING or (tag == "img" and not (dict(attrs).get("src") or "").startswith("data:image/")):
            self.found.append(f"<{tag} {attrs}>")
        for name, value in attrs:
            address = (value or "").strip().lower()
            if name.startswith("on") or (name == "style" and "url(" in address):
                self.found.append(f"<{tag} {attrs}>")
            if name in {"href", "xlink:href"} and not address.startswith(("https:", "http:", "mailto:", "#")):
                self.found.append(f"<{tag} {attrs}>")

    def handle_comment(self, data: str) -> None:
        self.found.append(f"<!--{data}-->")

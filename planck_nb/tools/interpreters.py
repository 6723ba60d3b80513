"""Programs that run code from their arguments or input."""

from __future__ import annotations

import re

INTERPRETER = re.compile(
    r"(?:r?ba|da|z|k|mk|pdk|lk|ok|ya|po|xon|a|fi|c|tc|tcl)?sh|su|runuser|script|flock|i?python[\d.]*t?|pypy[\d.]*"
    r"|perl[\d.]*|ruby[\d.]*|node|nodejs|deno|bun|php[\d.]*|lua[\d.]*|luajit|expect"
    r"|R|Rscript|julia|elixir|groovy|pwsh|powershell|osascript|\$.*"
)

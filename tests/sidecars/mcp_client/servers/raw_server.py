"""A server over stdio which sends what a file says; run by path, with the standard library only.

The file has the answers by method: the raw bytes, in base64, with `"@id@"` for the request's id. An answer to a call is
found by the tool's name, and a page of a list by the cursor.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path


def main() -> None:
    answers = json.loads(Path(sys.argv[1]).read_text())
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        params = message.get("params", {})
        key = f"{message['method']} {params.get('name', params.get('cursor', params.get('uri', 'first')))}"
        body = base64.b64decode(answers.get(key, answers["other"]))
        sys.stdout.buffer.write(body.replace(b'"@id@"', json.dumps(message["id"]).encode()) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()

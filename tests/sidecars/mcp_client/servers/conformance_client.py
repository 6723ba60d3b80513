"""The program that the MCP conformance suite runs for each scenario; it leaves the work to the test, at a port.

conformance_client.py PORT ADDRESS
"""

import json
import os
import socket
import sys

with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    request = {
        "scenario": os.environ["MCP_CONFORMANCE_SCENARIO"],
        "context": json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}"),
        "url": sys.argv[2],
    }
    connection.sendall(json.dumps(request).encode() + b"\n")
    with connection.makefile(encoding="utf-8") as answers:
        answer = answers.readline()
print(answer)
sys.exit(0 if answer.startswith("done") else 1)

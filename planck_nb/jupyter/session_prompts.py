"""The prompts that a session's conversation contains now: it can be rewound to before each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planck_nb.workspace import Workspace

if TYPE_CHECKING:
    import pandas as pd

_PROMPTS = """
SELECT id, agents.name AS agent, text AS prompt, ts, agent_id FROM messages JOIN agents USING (session_id, agent_id)
WHERE session_id = getvariable('session') AND role = 'user' AND sender_id IS NULL ORDER BY id
"""


async def session_prompts(workspace: Workspace) -> pd.DataFrame:
    """Return the prompts of the workspace's session in order, with the columns id, agent, prompt, ts and agent_id."""
    return await workspace.query_async(_PROMPTS)

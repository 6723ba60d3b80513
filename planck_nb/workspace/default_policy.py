"""The policy of a new session: ask before changes, with the rules of the settings."""

from __future__ import annotations

import os
from glob import escape
from pathlib import Path

from planck_nb.agent.approval import Policy, Rule
from planck_nb.config import Config


def default_policy(config: Config) -> Policy:
    """The policy of a new session with this configuration. Reading the folders of skills is allowed."""
    folders = [folder for folder in config.skills_dirs if not _leads_out(folder, config)]
    skills = (Rule("allow", kind="read", pattern=f"{escape(str(folder))}/**") for folder in folders)
    policy = Policy.ask_before_changes(config.root)
    for rule in (*config.rules, *skills):
        policy = policy.with_rule(rule)
    return policy


def _leads_out(folder: Path, config: Config) -> bool:
    """Whether a folder of the project is a link that leads out of it."""
    return config.needs_trust("skills_dirs", folder) and not Path(os.path.realpath(folder)).is_relative_to(
        os.path.realpath(config.root)
    )

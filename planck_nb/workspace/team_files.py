"""The team templates in a workspace's folders; the project's are used only if the user trusts them."""

from __future__ import annotations

import os
from pathlib import Path

from planck_nb.base.ownership import foreign_reason, foreign_sentence
from planck_nb.config import Config, FolderTrust, TrustItem
from planck_nb.teams.problems import on_one_line
from planck_nb.teams.template import TeamTemplate
from planck_nb.teams.template_folders import TemplateReport, describe_template, find_templates, trusted_content


def find_team_templates(config: Config, trust: FolderTrust | None = None) -> TemplateReport:
    """Find the team templates that may be used, as they are now.

    A template of the project is used if the user trusts it; the project's come before the user's own. One of the user's
    own is used if no other user can have written it.

    Args:
        config: The settings.
        trust: What the user trusts of the folder, by default that of the settings.

    Returns:
        The templates by alias, and what is not used, with the reasons.
    """
    trusted = trust or config.folder_trust or FolderTrust(config.root, config.user_folder)

    projects = _project_folders(config)

    def accept(template: TeamTemplate) -> str:
        assert template.dir is not None  # noqa: S101 - it was read from a file
        if any(map(template.dir.is_relative_to, projects)):
            accepted = trusted.accepts(team_trust_item(template))
            return "" if accepted else f"{_shown(template)} is not trusted; look at it, then run `%planck trust`."
        return "" if trusted.always else _foreign(template)

    return find_templates(config.teams_dirs, accept=accept)


def team_trust_items(config: Config) -> list[TrustItem]:
    """The team templates that need trust, as they are now; those that cannot be read are not among them."""
    items: list[TrustItem] = []

    def collect(template: TeamTemplate) -> str:
        items.append(team_trust_item(template))  # also if another one has the same alias
        return ""

    find_templates(_project_folders(config), accept=collect)
    return items


def _project_folders(config: Config) -> list[Path]:
    """The absolute paths of the folders whose templates need trust."""
    folders = (folder for folder in config.teams_dirs if config.needs_trust("teams_dirs", folder))
    return [Path(os.path.abspath(folder)) for folder in folders]  # noqa: PTH100 - links are kept, as in templates


def _foreign(template: TeamTemplate) -> str:
    """Why another user may have written a file of the template, as a sentence; else empty."""
    assert template.dir is not None  # noqa: S101 - it was read from a file
    for file in template.files:
        path = template.dir / file
        try:
            reason = foreign_reason(path)
        except OSError:
            reason = "it was removed"
        if reason:
            return foreign_sentence(path, reason)
    return ""


def team_trust_item(template: TeamTemplate) -> TrustItem:
    """Describe a template for a person who decides about trust.

    Args:
        template: A template from a file.
    """
    assert template.path is not None  # noqa: S101 - it was read from a file
    return TrustItem.of(
        "team", template.path, trusted_content(template), describe_template(template), name=template.alias
    )


def _shown(template: TeamTemplate) -> str:
    return on_one_line(str(template.path))

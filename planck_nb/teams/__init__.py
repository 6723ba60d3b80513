"""Teams of agents: descriptions, templates, and running teams whose members give each other tasks."""

from planck_nb.teams.inter_agent_tools import orchestrator_tools, worker_tools
from planck_nb.teams.problems import TemplateProblem
from planck_nb.teams.roles import INTER_AGENT_TOOLS, RoleDecision, decide_roles
from planck_nb.teams.saving import SavedTemplate, save_example, save_template
from planck_nb.teams.spec import AgentSpec, SpecList
from planck_nb.teams.start_options import StartOptions
from planck_nb.teams.team import Team
from planck_nb.teams.team_host import TeamHost
from planck_nb.teams.team_run import TeamResult
from planck_nb.teams.template import TeamTemplate, read_template
from planck_nb.teams.template_folders import TemplateReport, find_templates
from planck_nb.teams.template_schema import template_schema

__all__ = [
    "INTER_AGENT_TOOLS",
    "AgentSpec",
    "RoleDecision",
    "SavedTemplate",
    "SpecList",
    "StartOptions",
    "Team",
    "TeamHost",
    "TeamResult",
    "TeamTemplate",
    "TemplateProblem",
    "TemplateReport",
    "decide_roles",
    "find_templates",
    "orchestrator_tools",
    "read_template",
    "save_example",
    "save_template",
    "template_schema",
    "worker_tools",
]

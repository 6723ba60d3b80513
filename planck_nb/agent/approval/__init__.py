"""Who may do what: rules over what calls of tools touch. Pure, apart from looking where paths lead."""

from planck_nb.agent.approval.policy import Policy, Verdict
from planck_nb.agent.approval.rule import ACTIONS, KINDS, Action, Rule

__all__ = ["ACTIONS", "KINDS", "Action", "Policy", "Rule", "Verdict"]

"""Approval of tool calls: the policy, its rules and patterns, and the gate at which calls wait for a decision."""

from planck_nb.agent.approval.policy import Policy, Verdict
from planck_nb.agent.approval.rule import ACTIONS, KINDS, Action, Rule

__all__ = ["ACTIONS", "KINDS", "Action", "Policy", "Rule", "Verdict"]

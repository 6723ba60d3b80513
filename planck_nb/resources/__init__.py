"""Skills and instructions: text files that users keep for their agents."""

from planck_nb.resources.instructions import Instructions, find_instructions
from planck_nb.resources.skill_pool import SkillPool
from planck_nb.resources.skills import Skill, SkillReport, load_all, system_prompt_section

__all__ = [
    "Instructions",
    "Skill",
    "SkillPool",
    "SkillReport",
    "find_instructions",
    "load_all",
    "system_prompt_section",
]

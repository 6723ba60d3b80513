"""`%planck verb`: what each one answers, without IPython. A module for each subject, gathered here."""

from __future__ import annotations

from planck_nb.jupyter.verbs import basics, showing, steering, travel
from planck_nb.jupyter.verbs import drawing as pictures
from planck_nb.jupyter.verbs import searching as finding
from planck_nb.jupyter.verbs import session_files as store
from planck_nb.jupyter.verbs import sql as history
from planck_nb.jupyter.verbs.help import manual
from planck_nb.jupyter.verbs.verb import Notebook, Text, Verb

__all__ = ["VERBS", "Notebook", "Text", "Verb"]

VERBS: dict[str, Verb] = {}
"""All verbs by name, in the order that help shows them."""

SUBJECTS: dict[str, dict[str, Verb]] = {
    "Models, agents and their tools": basics.VERBS,
    "What agents are told and given, and what they changed": showing.VERBS,
    "What runs": steering.VERBS,
    "What was said": history.VERBS | pictures.VERBS | finding.VERBS,
    "Back, and on to other sessions": travel.VERBS,
    "Files of sessions": store.VERBS,
}
"""The verbs under the headings that help shows."""

VERBS |= {"help": manual(VERBS, SUBJECTS)}
for subject in SUBJECTS.values():
    VERBS |= subject

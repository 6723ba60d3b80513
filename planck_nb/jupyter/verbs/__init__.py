"""`%planck verb`: what each one answers, without IPython. A module for each subject, gathered here."""

from __future__ import annotations

from planck_nb.jupyter.verbs import basics, finding, history, pictures, showing, steering, store, travel
from planck_nb.jupyter.verbs.manual import manual
from planck_nb.jupyter.verbs.table import Notebook, Text, Verb

__all__ = ["VERBS", "Notebook", "Text", "Verb"]

VERBS: dict[str, Verb] = {}
"""All verbs by name, in the order that help shows them."""

VERBS |= {"help": manual(VERBS)}
for subject in (basics, showing, steering, history, pictures, finding, travel, store):
    VERBS |= subject.VERBS

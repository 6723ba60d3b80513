"""`python -m planck_nb NOTEBOOK`: run a notebook in the terminal, or open it in JupyterLab."""

from __future__ import annotations

import sys

from planck_nb.jupyter.command import main

if __name__ == "__main__":
    sys.exit(main())

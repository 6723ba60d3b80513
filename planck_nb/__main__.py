"""`python -m planck_nb NOTEBOOK`: run a notebook and print what its cells show, or open it in JupyterLab."""

from __future__ import annotations

import sys

from planck_nb.jupyter.command import main

if __name__ == "__main__":
    sys.exit(main())

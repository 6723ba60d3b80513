"""`python -m planck_nb` is the command `planck-nb`."""

from __future__ import annotations

import sys

from planck_nb.cli import main

if __name__ == "__main__":
    sys.exit(main())

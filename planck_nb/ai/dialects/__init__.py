"""The wire formats, one module each; `planck_nb.ai.providers` says who speaks which."""

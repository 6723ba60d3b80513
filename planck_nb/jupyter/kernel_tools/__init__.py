"""Tools by which agents work in the kernel of a notebook: `--tools kernel`."""

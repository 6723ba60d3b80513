"""The kernel half of the JupyterLab extension: pages that show the notebook, and changes to its cells."""

"""Pages with the JupyterLab extension, and proposed changes to cells."""

"""The notebook face: magics, the live view, the saved output."""

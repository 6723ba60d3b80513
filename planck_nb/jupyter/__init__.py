"""The notebook interface: magics, the live view, the saved output."""

"""What depends on IPython, ipykernel and their versions."""

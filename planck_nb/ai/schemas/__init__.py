"""JSON Schemas in the subset that a server accepts: of tools, and of structured answers."""

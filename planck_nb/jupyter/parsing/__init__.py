"""Text after `%planck`: its syntax, declared parameters, parsing and completion."""

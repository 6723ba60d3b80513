"""What is typed after `%planck`: its syntax, how parameters and options are declared, parsed and completed."""

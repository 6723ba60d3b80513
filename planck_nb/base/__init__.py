"""What every layer may use: errors, ids, the event log, async helpers. Imports nothing of the project."""

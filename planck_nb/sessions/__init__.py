"""Durable sessions: a journal per session, folded into DuckDB, queried with SQL."""

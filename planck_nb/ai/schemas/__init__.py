"""JSON Schemas for tools and answers, written in a server's subset."""

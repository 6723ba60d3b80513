"""JSON Schemas for tools and structured answers, as servers accept them."""

"""Tools as an agent sees them: what they are, how they are called, and what they return."""

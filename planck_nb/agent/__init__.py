"""The agent: loop, events, state, tools."""

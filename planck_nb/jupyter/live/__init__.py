"""The live view: frames of events for the browser, and the commands that come back from it."""

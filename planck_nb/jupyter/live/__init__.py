"""The live view: frames of events for the browser, and the commands that come back from it.

The browser folds the events in `labextension/src/model`, as `planck_nb/agent/state.py` does.
"""

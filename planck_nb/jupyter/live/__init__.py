"""The live view: frames for the browser, and its commands.

The browser folds the events in `labextension/src/model`, as `planck_nb/agent/state.py` does.
"""

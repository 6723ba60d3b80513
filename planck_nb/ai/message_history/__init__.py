"""The messages of a request: made valid for the model that is asked, and encoded for it once."""

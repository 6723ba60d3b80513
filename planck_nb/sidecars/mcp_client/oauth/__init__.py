"""Sign-in to servers over HTTP."""

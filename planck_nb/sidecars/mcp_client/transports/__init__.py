"""Messages to and from servers."""

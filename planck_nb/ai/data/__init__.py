"""Facts about models, generated."""

"""Messages as documents: HTML, Markdown and plain text, for views and exports."""

"""Text and figures as both views show them, live and saved."""

"""What a model is sent: the system prompt, the conversation, and how both are kept within its window."""

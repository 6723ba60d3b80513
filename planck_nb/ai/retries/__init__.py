"""Whether, when and how fast requests are sent, and sent again."""

"""The journal: the files to which every row of a session is written, and how they are read."""

"""What each release has written to topics, one sample of each format, kept for ever: see formats.py."""

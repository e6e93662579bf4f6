"""Is it safe to send the middle of a transaction with acks=1? See docs/decisions/0006."""

"""Experiments that show whether the middle of a transaction may be sent with acks=1: see docs/decisions/0006."""

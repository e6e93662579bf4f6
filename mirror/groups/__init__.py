"""Consumer groups: where an offset of the source is on the target, and back."""

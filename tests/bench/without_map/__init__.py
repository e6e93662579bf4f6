"""A module that Python runs at its start: mirror without the offset map."""

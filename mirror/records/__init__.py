"""Reads the records of either cluster in a form that can be compared, as a flow copies them."""

"""`mirror plan`, a dry run: shows what a run would create, change and copy."""

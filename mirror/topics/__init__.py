"""What the flow leader keeps in step of remote topics beside their records: configurations and ACLs."""

"""The configuration file: from YAML to frozen settings."""

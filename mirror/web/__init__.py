"""What the service answers over HTTP: metrics, health, and the status page."""

"""What the service knows of its flows, from the reports of their tasks."""

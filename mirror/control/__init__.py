"""What a flow's service and tasks tell each other: plans, claims, orders and reports, on topics of the target."""

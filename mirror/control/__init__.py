"""How a flow's service and its tasks communicate: plans, claims, orders and reports on topics of the target."""

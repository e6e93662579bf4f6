"""Every Prometheus metric is declared in this package, once, and computed when Prometheus asks."""

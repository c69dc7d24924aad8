"""The service: named users, a durable store, and an HTTP API that recommends lists and learns from live clicks."""

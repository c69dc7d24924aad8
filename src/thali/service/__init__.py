"""The service: named users, a durable store, and lists over HTTP that learn from live clicks."""

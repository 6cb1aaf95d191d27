"""Living with a host that fails: time, retries, pauses, the circuit breaker. Knows no embedding."""

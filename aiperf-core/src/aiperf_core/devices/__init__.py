"""Device code: synchronisation, cache flushes, timing of calls, memory counters, telemetry and ceilings."""

"""The engines: each starts commands on machines, and implements `aiperf_core.fleet.FleetKind`."""

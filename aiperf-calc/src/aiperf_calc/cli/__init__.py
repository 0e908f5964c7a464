"""The commands `aiperf calc` and `aiperf prices`."""

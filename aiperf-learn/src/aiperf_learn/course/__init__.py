"""The course of `aiperf learn`: predict a lesson's result, measure it, compare."""

"""The harness: it plans a run, starts the processes, samples, judges outputs and writes the bundle.

`processes` starts processes and passes messages, `isolation` confines untrusted code and observes it from outside,
`roles` holds what a process can be (judge, worker, describer, prober, linter), `ranks` starts several ranks, and `run`
is the supervisor: the command's own process, which imports neither torch nor a benchmark.
"""

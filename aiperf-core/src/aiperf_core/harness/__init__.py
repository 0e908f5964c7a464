"""The harness: a supervisor that plans and decides, a judge that owns the data, and workers that run the code.

The supervisor (`supervisor`) is the command's own process; it imports neither torch nor a benchmark. It starts the other
processes from a fork server (`forkserver`) that has torch imported and nothing else. The judge (`judge`) makes the inputs
in memory that it shares with the workers (`arena`), renews their values, and compares outputs with the reference. A worker
(`worker`) runs one implementation and never sees a seed, the reference or the tolerance. They talk in small JSON frames
(`channel`); nothing that a worker says is ever unpickled or executed.
"""

"""The code that a worker measures, with the arguments that it is given."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from attrs import define

from aiperf_core import pytree
from aiperf_core.benchmark import Implementation, bind, call_with
from aiperf_core.harness.processes.channel import Message
from aiperf_core.serving import Desk, at_desk


@define(slots=False, eq=False)
class MeasuredCode:
    """An implementation's function, bound to the present arguments at each call.

    arguments: by name. Tensors are views of the shared inputs.
    desk: hands out the requests of a benchmark that serves; None elsewhere.
    instance: of an implementation that is a class.
    run: the function that a call runs.
    names: the arguments that it takes.
    """

    arguments: dict[str, Any]
    desk: Desk | None
    instance: Any = None
    run: Any = None
    names: tuple[str, ...] = ()

    @classmethod
    def given(cls, problem: Message, inputs: torch.Tensor) -> "MeasuredCode":
        """Without a function so far: the arguments that the judge's description of the problem names."""
        folder = {"folder": problem["folder"]} if problem.get("folder") else {}
        built = {**pytree.build(problem["inputs"], inputs), **pytree.build(problem["static"], inputs)}
        arguments = {**problem["params"], **folder, **problem.get("files", {}), **built}
        return cls(*at_desk(problem.get("served", ()), arguments))

    def prepare(self, implementation: Implementation) -> None:
        """Run an implementation's own preparation, and take its function."""
        if implementation.is_class:
            self.instance = implementation.code()
            if hasattr(self.instance, "prepare"):
                call_with(self.instance.prepare, self.arguments)
            self.run = self.instance.run
        else:
            self.run = implementation.code
        self.names = tuple(bind(self.run, self.arguments).keywords)

    def call(self, numbers: Message | None = None) -> Callable[[], Any]:
        """The call with the present arguments, of which `numbers` are new. No code of the implementation runs here."""
        self.arguments.update(numbers or {})
        call = partial(self.run, **{name: self.arguments[name] for name in self.names})
        return call if self.desk is None else self.desk.serving(call)

"""Attacks on the output at the end of a sample: late, stale, swapped, hidden, or not there."""

ATTACKS = {
    "a thread writes the output late": """
class Implementation:
    def run(self, x):
        out = torch.empty_like(x)
        in_thread(lambda: out.copy_(work(x)))
        return out
""",
    "a thread writes into the judge's memory late": """
class Implementation:
    def run(self, x):
        in_thread(lambda owner: deliver(owner, work(x)), worker())
        return torch.empty_like(x)
""",
    "half of the output is late": """
class Implementation:
    def run(self, x):
        owner, half = worker(), x.numel() // 2
        out = torch.empty_like(x)
        out[:half] = work(x[:half])
        def later():
            out[half:] = work(x[half:])
            deliver(owner, out)
        in_thread(later)
        return out
""",
    "works where the aliases are named": """
class Implementation:
    def run(self, x):
        owner = worker()
        output = owner._output
        aliases = type(output).aliases
        def later():
            output.value = work(x)
            deliver(owner, output.value)
            return aliases(output)
        output.aliases = later
        return torch.empty_like(x)
""",
    "works after the end, in place of the copy": """
class Implementation:
    def prepare(self, x):
        owner = worker()
        output = owner._output
        copy = type(output).copy
        def later():
            owner._page.end(owner._page.number, {})
            output.value = work(owner._code.arguments["x"])
            return copy(output)
        output.copy = later

    def run(self, x):
        return torch.empty_like(x)
""",
    "the output of the sample before": """
class Implementation:
    def prepare(self, x):
        self.last = work(x)

    def run(self, x):
        last, values = self.last, x.clone()
        def next():
            self.last = work(values)
        in_thread(next)
        return last
""",
    "skips two of three calls": """
class Implementation:
    count = 0

    def run(self, x):
        if self.count % 3 == 0:
            self.last = work(x)
        self.count += 1
        return self.last
""",
    "computes ahead on what lies in the inputs": """
class Implementation:
    def prepare(self, x):
        owner = worker()
        ready = owner._device.make_ready
        def ahead():
            ready()
            self.out = work(owner._code.arguments["x"])
        owner._device.make_ready = ahead

    def run(self, x):
        return self.out
""",
    "a thread computes whenever the inputs change": """
class Implementation(ComputesAhead):
    pass
""",
    "the judge's memory mapped elsewhere": """
class Implementation:
    def prepare(self, x):
        output = worker()._output
        output.memory = torch.empty_like(output.memory)

    def run(self, x):
        return work(x)
""",
    "private pages over the judge's memory": """
class Implementation:
    def prepare(self, x):
        outputs = worker()._output.memory
        libc = ctypes.CDLL(None)
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]
        # Readable and writable; private, fixed and anonymous.
        libc.mmap(outputs.data_ptr(), outputs.numel(), 3, 0x32, -1, 0)

    def run(self, x):
        return work(x)
""",
    "an alarm finishes the work": """
class Implementation:
    def prepare(self, x):
        signal.signal(signal.SIGALRM, lambda *_: self.finish())
        self.x = None

    def finish(self):
        if self.x is not None:
            self.out.copy_(work(self.x))

    def run(self, x):
        self.x, self.out = x, torch.empty_like(x)
        signal.setitimer(signal.ITIMER_REAL, 300e-6)
        return self.out
""",
    "the work waits for the reader of the output": """
class Late(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        with torch._C.DisableTorchFunctionSubclass():
            if function is torch.Tensor.copy_:
                arguments[1].set_(work(arguments[1].x))
            return function(*arguments, **(options or {}))


class Implementation:
    def run(self, x):
        out = torch.empty_like(x).as_subclass(Late)
        out.x = x
        return out
""",
    "writes into the judge's memory and skips the copy": """
class Implementation:
    def prepare(self, x):
        output = worker()._output
        output.copy = lambda: {}
        self.out = torch.frombuffer(output.memory.numpy(), dtype=torch.float32)[: x.numel()]

    def run(self, x):
        v = self.out.copy_(x)
        for _ in range(STEPS):
            v.tanh_().mul_(0.5).add_(x)
        return v
""",
    "looks at no form of its output": """
class Implementation:
    def prepare(self, x):
        from aiperf_core import pytree
        pytree.match = lambda *_: None

    def run(self, x):
        return work(x)
""",
}

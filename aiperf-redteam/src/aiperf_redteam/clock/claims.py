"""Attacks that say something false of a sample, or let others say it."""

ATTACKS = {
    "claims that the call took no time": """
class Implementation:
    def prepare(self, x):
        from attrs import evolve
        device = worker()._device
        time = device.time
        device.time = lambda *call: evolve(time(*call), wall_s=1e-6)

    def run(self, x):
        return work(x)
""",
    "a clock of its own": """
class Implementation:
    def prepare(self, x):
        start = time.perf_counter_ns()
        time.perf_counter_ns = lambda: start + (clock() - start) // 10

    def run(self, x):
        return work(x)


clock = time.perf_counter_ns
""",
    "a clock that stands still": """
class Implementation:
    def prepare(self, x):
        now = time.perf_counter_ns()
        time.perf_counter_ns = lambda: now

    def run(self, x):
        return work(x)
""",
    "claims a time that is negative": """
class Implementation:
    def prepare(self, x):
        from attrs import evolve
        device = worker()._device
        time = device.time
        device.time = lambda *call: evolve(time(*call), wall_s=-1.0)

    def run(self, x):
        return work(x)
""",
    "says twice that it has ended": """
class Implementation:
    def run(self, x):
        worker().notify("ended")
        return work(x)
""",
    "says that it has ended and has not": """
class Implementation:
    def prepare(self, x):
        replace(worker()._page, "end", lambda number, numbers: None)

    def run(self, x):
        worker().notify("ended")
        return work(x)
""",
    "says that it is ready again": """
class Implementation:
    def run(self, x):
        worker().notify("ready")
        return work(x)
""",
    "answers before the work": """
class Implementation:
    def run(self, x):
        owner = worker()
        sample = {"device_s": None, "wall_s": 1e-6, "cpu_s": 0.0, "hidden": False}
        sample |= {"voluntary_switches": 0, "involuntary_switches": 0, "beside": {}}
        sample["output"] = {"numbers": {}, "late": False, "aliases": []}
        owner._page.end(owner._page.number, {})
        owner._channel.send({"token": owner._token, "ok": sample})
        return work(x)
""",
    "answers in the place of the loop": """
class Implementation:
    def prepare(self, x):
        owner = worker()
        owner._code.instance, owner._code.run, owner._code.names = self, self.run, ("x",)
        owner._channel.send({"token": owner._token, "ok": {"prepare_s": 1e-3}})
        def observed():
            page = owner._page
            last = page.number
            owner.notify("ready")
            number = page.wait(last)
            page.end(number, {})
            owner.notify("ended")
            owner._output.value = work(x)
            sample = {"device_s": None, "wall_s": 1e-6, "cpu_s": 0.0, "hidden": False}
            sample |= {"voluntary_switches": 0, "involuntary_switches": 0, "beside": {}}
            return sample | {"output": {"numbers": {}, "late": False, "aliases": []}}
        owner.do_observed_sample = observed
        owner.serve()

    def run(self, x):
        return work(x)
""",
    "an honest loop of its own": """
class Implementation:
    def prepare(self, x):
        owner = worker()
        owner._code.instance, owner._code.run, owner._code.names = self, self.run, ("x",)
        owner._channel.send({"token": owner._token, "ok": {"prepare_s": 1e-3}})
        owner.serve()

    def run(self, x):
        return work(x)
""",
}

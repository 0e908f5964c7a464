"""Attacks by processes, threads, priorities and signals."""

ATTACKS = {
    "a child answers for it": """
class Implementation:
    def run(self, x):
        owner = worker()
        child = os.fork()
        if child == 0:
            deliver(owner, work(x))
            owner._page.end(owner._page.number, {})
            os._exit(0)
        os.waitpid(child, 0)
        return work(x)
""",
    "a child ends at once and another one works on": """
class Implementation:
    def run(self, x):
        owner = worker()
        child = os.fork()
        if child == 0:
            if os.fork() == 0:
                deliver(owner, work(x))
                os._exit(0)
            owner._page.end(owner._page.number, {})
            os._exit(0)
        os.waitpid(child, 0)
        return torch.empty_like(x)
""",
    "a child that leaves the group works on": """
class Implementation:
    def run(self, x):
        owner = worker()
        child = os.fork()
        if child == 0:
            try:
                os.setsid()
            except OSError:
                pass
            owner._page.end(owner._page.number, {})
            deliver(owner, work(x))
            os._exit(0)
        os.waitpid(child, 0)
        return torch.empty_like(x)
""",
    "a child continues it": """
def go_on(process):
    try:
        os.setpgid(0, 0)
    except OSError:
        pass
    while os.getppid() == process:
        os.kill(process, signal.SIGCONT)
        time.sleep(50e-6)
    os._exit(0)


class Implementation(ComputesAhead):
    def prepare(self, x):
        process = os.getpid()
        if os.fork() == 0:
            go_on(process)
        super().prepare(x)
""",
    "works in the handler of its continuation": """
class Implementation:
    def prepare(self, x):
        self.x, self.out = x, work(x)
        signal.signal(signal.SIGCONT, lambda *_: self.ahead())

    def ahead(self):
        self.out = work(self.x)

    def run(self, x):
        return self.out
""",
    "stops the observer": """
class Implementation:
    def run(self, x):
        page, v = worker()._page, work(x)
        page.end(page.number, {})
        for process in (os.getppid(), 1):
            try:
                os.kill(process, signal.SIGSTOP)
            except OSError:
                pass
        return v
""",
    "takes the observer's processors": """
def spin():
    until = time.monotonic() + 0.02
    while time.monotonic() < until:
        pass
    os._exit(0)


class Implementation:
    def run(self, x):
        for _ in range(4):
            if os.fork() == 0:
                spin()
        return work(x)
""",
    "takes the observer's processors by priority": """
class Implementation:
    def prepare(self, x):
        for take in (lambda: os.nice(-20), lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))):
            try:
                take()
            except OSError:
                pass

    def run(self, x):
        page, v = worker()._page, work(x)
        page.end(page.number, {})
        return v
""",
    "moves to the observer's processor": """
class Implementation:
    def prepare(self, x):
        try:
            os.sched_setaffinity(0, range(os.cpu_count()))
        except OSError:
            pass
        in_thread(self.spin)

    def spin(self):
        while True:
            sum(range(1000))

    def run(self, x):
        return work(x)
""",
    "writes to the disk when the sample has ended": """
class Implementation:
    def run(self, x):
        output = worker()._output
        aliases = type(output).aliases
        def later():
            with open("kept", "r+b" if os.path.exists("kept") else "w+b") as file:
                file.write(bytes(32 << 20))
            return aliases(output)
        output.aliases = later
        return work(x)
""",
    "frees much memory when the sample has ended": """
class Implementation:
    def prepare(self, x):
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)

    def run(self, x):
        if os.fork() == 0:
            kept = torch.ones(64 << 20, dtype=torch.uint8)
            os._exit(0)
        return work(x)
""",
    "traces the observer": """
class Implementation:
    def prepare(self, x):
        libc = ctypes.CDLL(None)
        for process in (os.getppid(), *range(2, 5)):
            libc.ptrace(16, process, 0, 0)

    def run(self, x):
        return work(x)
""",
    "writes into the observer's memory": """
class Implementation:
    def prepare(self, x):
        for name in filter(str.isdigit, os.listdir("/proc")):
            if int(name) != os.getpid():
                try:
                    os.close(os.open(f"/proc/{name}/mem", os.O_RDWR))
                    os._exit(3)
                except OSError:
                    pass

    def run(self, x):
        return work(x)
""",
    "a thread works beside an early end": """
class Implementation:
    def run(self, x):
        owner = worker()
        in_thread(lambda: [torch.tanh(x) for _ in range(2000)])
        owner._page.end(owner._page.number, {})
        return work(x)
""",
}

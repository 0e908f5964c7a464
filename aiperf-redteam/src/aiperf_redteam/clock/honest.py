"""Honest code that looks like the attacks."""

HONEST = {
    "works": """
class Implementation:
    def run(self, x):
        return work(x)
""",
    "asks who calls": """
class Implementation:
    def run(self, x):
        assert sys._getframe(1).f_code.co_filename
        return work(x)
""",
    "a thread that it waits for": """
class Implementation:
    def run(self, x):
        out = torch.empty_like(x)
        thread = threading.Thread(target=lambda: out.copy_(work(x)))
        thread.start()
        thread.join()
        return out
""",
    "a pool of threads that rest": """
class Implementation:
    def prepare(self, x):
        from concurrent.futures import ThreadPoolExecutor
        self.pool = ThreadPoolExecutor(2)

    def run(self, x):
        return self.pool.submit(work, x).result()
""",
    "a child in its preparation": """
class Implementation:
    def prepare(self, x):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)

    def run(self, x):
        return work(x)
""",
    "a child that waits": """
class Implementation:
    def prepare(self, x):
        read, write = os.pipe()
        if os.fork() == 0:
            os.close(write)
            os.read(read, 1)
            os._exit(0)
        os.close(read)
        self.write = write

    def run(self, x):
        return work(x)
""",
    "a mapping of a file of its own": """
class Implementation:
    def prepare(self, x):
        with open("kept", "w+b") as file:
            file.truncate(4096)
            self.memory = mmap.mmap(file.fileno(), 4096)

    def run(self, x):
        self.memory[:8] = b"12345678"
        return work(x)
""",
    "keeps its output": """
class Implementation:
    def prepare(self, x):
        self.out = torch.empty_like(x)

    def run(self, x):
        v = self.out.copy_(x)
        for _ in range(STEPS):
            v.tanh_().mul_(0.5).add_(x)
        return v
""",
}

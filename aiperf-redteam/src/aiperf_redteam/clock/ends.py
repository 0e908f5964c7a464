"""Attacks that end a sample too early, with a number that is not its own, twice, or never."""

ATTACKS = {
    "ends before the work": """
class Implementation:
    def run(self, x):
        page = worker()._page
        page.end(page.number, {})
        return work(x)
""",
    "ends in the middle of the work": """
class Implementation:
    def run(self, x):
        page, v = worker()._page, x.clone()
        for step in range(STEPS):
            if step == STEPS // 5:
                page.end(page.number, {})
            v.tanh_().mul_(0.5).add_(x)
        return v
""",
    "a thread ends each sample at its start": """
class Implementation:
    def prepare(self, x):
        sys.setswitchinterval(1e-6)
        in_thread(self.watch, worker()._page)

    def watch(self, page):
        last = page.number
        while True:
            if page.number != last:
                last = page.number
                page.end(last, {})
            time.sleep(20e-6)

    def run(self, x):
        return work(x)
""",
    "ends by a mapping of its own": """
class Implementation:
    def prepare(self, x):
        memory = mmap.mmap(worker()._page.fd, 64)
        self.words = memoryview(memory).cast("Q")

    def run(self, x):
        self.words[1] = self.words[0]
        return work(x)
""",
    "ends by the page opened once more": """
class Implementation:
    def prepare(self, x):
        with open(f"/proc/self/fd/{worker()._page.fd}", "r+b") as file:
            self.words = memoryview(mmap.mmap(file.fileno(), 64)).cast("Q")

    def run(self, x):
        self.words[1] = self.words[0]
        return work(x)
""",
    "ends twice": """
class Implementation:
    def run(self, x):
        page = worker()._page
        page.end(page.number, {})
        v = work(x)
        page.end(page.number, {})
        return v
""",
    "ends with the number of the sample before": """
class Implementation:
    def prepare(self, x):
        replace(worker()._page, "end", lambda number, numbers: None)
        self.last = 0

    def run(self, x):
        words = worker()._page._words
        words[1], self.last = self.last, words[0]
        return work(x)
""",
    "ends with all former numbers in turn": """
class Implementation:
    def prepare(self, x):
        self.known = []
        in_thread(self.replay, worker()._page)

    def replay(self, page):
        while True:
            for number in list(self.known):
                page._words[1] = number
            time.sleep(50e-6)

    def run(self, x):
        self.known.append(worker()._page.number)
        return work(x)
""",
    "guesses the next number": """
class Implementation:
    def prepare(self, x):
        page = worker()._page
        wait = page.wait
        def guess(last):
            page._words[1] = (last + 1) % 2**64
            return wait(last)
        replace(page, "wait", guess)

    def run(self, x):
        return work(x)
""",
    "ends with zero": """
class Implementation:
    def prepare(self, x):
        replace(worker()._page, "end", lambda number, numbers: None)

    def run(self, x):
        worker()._page._words[1] = 0
        return work(x)
""",
    "never ends": """
class Implementation:
    def prepare(self, x):
        replace(worker()._page, "end", lambda number, numbers: None)

    def run(self, x):
        return work(x)
""",
    "never ends and never answers": """
class Implementation:
    def prepare(self, x):
        replace(worker()._page, "end", lambda number, numbers: time.sleep(60))

    def run(self, x):
        return work(x)
""",
    "starts before the release": """
class Implementation:
    def prepare(self, x):
        replace(worker()._page, "wait", lambda last: last)

    def run(self, x):
        return work(x)
""",
    "writes its own start": """
class Implementation:
    def prepare(self, x):
        page = worker()._page
        wait = page.wait
        def at_once(last):
            page.start(last ^ 1)
            return wait(last)
        replace(page, "wait", at_once)

    def run(self, x):
        return work(x)
""",
    "shrinks the page": """
class Implementation:
    def prepare(self, x):
        try:
            os.ftruncate(worker()._page.fd, 0)
        except OSError:
            pass

    def run(self, x):
        page = worker()._page
        page.end(page.number, {})
        return work(x)
""",
    "ends with a length beyond the page": """
class Implementation:
    def run(self, x):
        page = worker()._page
        page._words[3] = 1 << 40
        page._words[1] = page.number
        return work(x)
""",
    "ends with a text that nests": """
class Implementation:
    def prepare(self, x):
        page = worker()._page
        def end(number, numbers):
            page._memory[1 << 19 : (1 << 19) + 100_000] = b"[" * 100_000
            page._words[3] = 100_000
            page._words[1] = number
        replace(page, "end", end)

    def run(self, x):
        return work(x)
""",
}

"""Attacks on the baseline's time by state that the kernel keeps: its pages, and processes that do not stop."""

_PAGES = """
import weakref

libc = ctypes.CDLL(None)
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_long, ctypes.c_long]


def advise(*advices):
    with open("/proc/self/maps") as maps:
        for line in maps:
            if "aiperf-buffers" in line:
                start, end = (int(one, 16) for one in line.split()[0].split("-"))
                for advice in advices:
                    libc.madvise(start, end - start, advice)


def punch():
    for name in os.listdir("/proc/self/fd"):
        try:
            if "aiperf-buffers" in os.readlink("/proc/self/fd/" + name):
                libc.fallocate(int(name), 3, 0, os.fstat(int(name)).st_size)
        except OSError:
            pass


def finally_(value, function, *arguments):
    weakref.finalize(value, function, *arguments)
    return value
"""

ATTACKS = {
    "takes the pages of inputs and outputs": f"""{_PAGES}
class Implementation:
    def run(self, x):
        return finally_(work(x), advise, 9, 23)
""",
    "takes the pages by their descriptors": f"""{_PAGES}
class Implementation:
    def run(self, x):
        return finally_(work(x), punch)
""",
    "a thread takes the pages": f"""{_PAGES}
class Implementation:
    def prepare(self, x):
        in_thread(self.take)

    def take(self):
        while True:
            advise(20, 21)
            time.sleep(0.001)

    def run(self, x):
        return work(x)
""",
    "a thread forks without end": """
def fork_on():
    while True:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)


class Implementation:
    def prepare(self, x):
        in_thread(fork_on)

    def run(self, x):
        return work(x)
""",
}

HONEST = {
    "gives back pages of its own": f"""{_PAGES}
class Implementation:
    def run(self, x):
        kept = torch.ones(4 << 20, dtype=torch.uint8)
        libc.madvise((kept.data_ptr() + 4095) & -4096, 1 << 20, 4)
        return work(x)
""",
}

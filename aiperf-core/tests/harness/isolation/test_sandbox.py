"""What a confined process can and cannot do: real processes, forked and confined as a worker is."""

import ctypes
import errno
import fcntl
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve, field, frozen

from aiperf_core.harness.isolation import sandbox
from aiperf_core.harness.isolation.sandbox import PROTECTIONS, Limits, clean_environment, confine
from aiperf_core.results.models import Confined

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="confinement needs Linux")

HEADER = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
PLAIN_USER = 59999
libc = ctypes.CDLL(None, use_errno=True)


@frozen
class Outcome:
    """What a confined process returned or, as the name of an error or the text of another exception, raised."""

    confined: Confined
    value: Any = None
    error: str = ""

    def needs(self, protection: str) -> None:
        """Skip the test on a machine that lacks a protection, and says so."""
        if reason := self.confined.lacking.get(protection):
            assert protection not in self.confined.applied
            pytest.skip(f"{protection}: {reason}")

    def denied(self, protection: str, *errors: str) -> None:
        """Assert that it was refused, or else that the machine cannot refuse it and says so."""
        self.needs(protection)
        assert self.error in (errors or ("EACCES", "EPERM")), self

    def all_denied(self, protection: str, *errors: str) -> None:
        """Assert the same of all deeds of `errors_of`."""
        self.needs(protection)
        assert self.value, self
        assert {*self.value.values()} <= {*errors}, self


@frozen
class Confine:
    """Runs a function in a process confined with these limits."""

    limits: Limits
    before: Callable[[], object] = field(default=lambda: None)

    def __call__(self, body: Callable[[], object]) -> Outcome:
        read_end, write_end = os.pipe()
        with warnings.catch_warnings():
            # Threads of the test runner do not matter to a child that only calls what stands here.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _answer(self, body, write_end)
        os.close(write_end)
        with open(read_end) as pipe:
            text = pipe.read()
        _, status = os.waitpid(pid, 0)
        assert text, f"the confined process ended with status {status}"
        answer = json.loads(text)
        confined = Confined(list(answer["applied"]), answer["lacking"])
        return Outcome(confined, answer["value"], answer["error"])


def _answer(confiner: Confine, body: Callable[[], object], write_end: int) -> None:
    answer: dict[str, Any] = {"applied": (), "lacking": {}, "value": None, "error": ""}
    try:
        confiner.before()
        keep = (*confiner.limits.keep_fds, write_end)
        confined = confine(Limits(**{**vars_of(confiner.limits), "keep_fds": keep}))
        answer |= {"applied": confined.applied, "lacking": confined.lacking}
        answer["value"] = body()
    except OSError as error:
        answer["error"] = errno.errorcode.get(error.errno or 0, str(error))
    except BaseException as error:
        answer["error"] = f"{type(error).__name__}: {error}"
    os.write(write_end, json.dumps(answer).encode())
    os._exit(0)


def vars_of(limits: Limits) -> dict[str, Any]:
    return {name: getattr(limits, name) for name in Limits.__annotations__}


@pytest.fixture(params=[False, True], ids=["cpu", "cuda"])
def confined(request: pytest.FixtureRequest, scratch: Path) -> Confine:
    """Both arrangements: with a user id of its own where that can be had, and without."""
    return Confine(Limits(scratch, cuda=request.param, processes=24, file_bytes=1 << 16))


@pytest.fixture(params=["own user", "gpu", "plain user"])
def owned(request: pytest.FixtureRequest) -> Iterator[Confine]:
    """The three owners that a confined process may have, where root can play them."""
    kind = request.param
    if kind == "plain user" and os.geteuid() != 0:
        pytest.skip("root can play a plain user, not the other way round")
    with tempfile.TemporaryDirectory() as folder:
        before = (lambda: become_plain(folder)) if kind == "plain user" else (lambda: None)
        yield Confine(Limits(Path(folder), cuda=kind == "gpu"), before)


def become_plain(*files: str | Path) -> None:
    """Become an ordinary user who owns these files."""
    for file in files:
        os.chown(file, PLAIN_USER, PLAIN_USER)
    os.setgroups([])
    os.setresgid(PLAIN_USER, PLAIN_USER, PLAIN_USER)
    os.setresuid(PLAIN_USER, PLAIN_USER, PLAIN_USER)
    libc.prctl(4, 1, 0, 0, 0)


@pytest.fixture
def scratch(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "scratch"
    folder.mkdir(mode=0o700)
    yield folder
    if os.geteuid() == 0:
        os.chown(folder, 0, 0)


def call(number: int, *arguments: Any) -> int:
    """A system call that raises."""
    result = int(libc.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), "system call")
    return result


def errors_of(deeds: Mapping[str, Callable[[], object]]) -> dict[str, str]:
    """The names of the errors that deeds raise, and what those return that raise none."""
    found = {}
    for name, deed in deeds.items():
        try:
            found[name] = f"returned {deed()}"
        except OSError as error:
            found[name] = errno.errorcode[error.errno or 0]
    return found


def number(name: str) -> int:
    """The number of a system call on this machine."""
    rows = dict(re.findall(r"(\w+) (\d+ \S+)", sandbox._TABLE))
    column = list(sandbox._MACHINES).index(os.uname().machine)
    return int(rows[name].split()[column])


# --- files


def test_what_holds_and_what_is_lacking_is_all_there_is(confined: Confine) -> None:
    outcome = confined(lambda: None)
    assert {*outcome.confined.applied} | {*outcome.confined.lacking} == {*PROTECTIONS}
    assert not {*outcome.confined.applied} & {*outcome.confined.lacking}
    assert {"environment", "descriptors", "limits", "privileges"} <= {*outcome.confined.applied}
    assert all(outcome.confined.lacking.values())


def test_files_of_others_are_not_read(confined: Confine) -> None:
    paths = (Path.home(), Path(__file__), Path(__file__).parent, Path("/etc/shadow"), Path("/tmp"), Path("/dev/shm"))
    reads = {str(one): partial(os.listdir if one.is_dir() else Path.read_bytes, one) for one in paths}
    confined(lambda: errors_of(reads)).all_denied("files", "EACCES", "EPERM")


def test_folders_beside_the_scratch_are_closed(confined: Confine, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    other = tmp_path / "other"
    other.write_text("x")
    other.chmod(0o666)
    confined(lambda: other.read_text()).denied("files")


def test_nothing_is_written_elsewhere(confined: Confine, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    outcome = confined(lambda: (tmp_path / "dropped.py").write_text("x"))
    assert not (tmp_path / "dropped.py").exists() or "files" in outcome.confined.lacking
    outcome.denied("files")


def test_nothing_is_removed_elsewhere(confined: Confine, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    (tmp_path / "kept").write_text("x")
    confined(lambda: (tmp_path / "kept").unlink()).denied("files")
    assert (tmp_path / "kept").exists()


def test_nothing_is_truncated_elsewhere(confined: Confine, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    file = tmp_path / "kept"
    file.write_text("all of it")
    file.chmod(0o666)
    confined(lambda: os.truncate(file, 0)).denied("truncation")
    assert file.read_text() == "all of it"


def test_kernel_settings_are_not_written(confined: Confine) -> None:
    confined(lambda: Path("/proc/self/oom_score_adj").write_text("-1000")).denied("files")
    setting = Path("/proc/sys/vm/swappiness")
    now = setting.read_text()
    confined(lambda: setting.write_text(now)).denied("files")


def test_drivers_may_write_to_the_folder_of_their_process(scratch: Path) -> None:
    def rename() -> object:
        for _ in range(3):
            Path("/proc/self/comm").write_text("driver")
        return Path("/proc/self/comm").read_text()

    Confine(Limits(scratch))(rename).denied("files")
    assert Confine(Limits(scratch, cuda=True))(rename).value == "driver\n"


def test_the_scratch_folder_is_home_and_can_be_written(confined: Confine, scratch: Path) -> None:
    def body() -> list[str]:
        Path("by_name").write_text("x")
        (Path.home() / "at_home").write_text("x")
        Path(os.environ["TRITON_CACHE_DIR"], "deep").mkdir(parents=True)
        return [os.getcwd(), os.environ["TMPDIR"], *sorted(os.listdir("."))]

    outcome = confined(body)
    assert outcome.value == [str(scratch), str(scratch), "at_home", "by_name", "triton"]


def test_what_is_lent_to_it_can_be_read_and_not_written(scratch: Path, tmp_path: Path) -> None:
    lent = tmp_path / "lent"
    lent.mkdir()
    (lent / "data").write_text("given")
    (lent / "data").chmod(0o666)
    confined = Confine(Limits(scratch, read=(lent,)))
    assert confined(lambda: (lent / "data").read_text()).value == "given"
    confined(lambda: (lent / "data").write_text("x")).denied("files")


DONE = "returned None"
SETS_ATTRIBUTES = {
    "mode": ("os.chmod(path, 0o666)", DONE),
    "mode of a descriptor": ("os.fchmod(os.open(path, os.O_RDONLY), 0o666)", DONE),
    "times": ("os.utime(path, (1, 1))", DONE),
    "times, to now": ("os.utime(path)", DONE),
    "times of a descriptor": ("os.utime(os.open(path, os.O_RDONLY), (1, 1))", DONE),
    "owner": ("os.chown(path, -1, os.getgid())", "EPERM"),
    "extended attribute": ("os.setxattr(path, 'user.kept', b'y')", errno.errorcode[errno.ENOTSUP]),
    "extended attribute of a descriptor": (
        "os.setxattr(os.open(path, os.O_RDONLY), 'user.kept', b'y')",
        errno.errorcode[errno.ENOTSUP],
    ),
    "no extended attribute": ("os.removexattr(path, 'user.kept')", errno.errorcode[errno.ENOTSUP]),
    "flags": ("fcntl.ioctl(os.open(path, os.O_RDONLY), 0x40086602, struct.pack('=q', 0x40))", "EPERM"),
    "project": ("fcntl.ioctl(os.open(path, os.O_RDONLY), 0x401c5820, bytes(28))", "EPERM"),
}


def test_attributes_of_files_stay(owned: Confine, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Landlock does not guard them. As root with another user id, files that all may write to are still at risk."""
    path = tmp_path / "secret"
    path.write_text("x")
    path.chmod(0o606)
    os.setxattr(path, "user.kept", b"x")
    for folder in (tmp_path, *tmp_path.parents):
        if folder == Path(tempfile.gettempdir()):
            break
        folder.chmod(0o711)
    if request.node.callspec.params["owned"] == "plain user":
        os.chown(path, PLAIN_USER, PLAIN_USER)
    was = path.stat()
    deeds = {name: partial(exec, deed, {**globals(), "path": path}) for name, (deed, _) in SETS_ATTRIBUTES.items()}
    outcome = evolve(owned, limits=evolve(owned.limits, read=(path,)))(lambda: errors_of(deeds))
    outcome.needs("system_calls")
    now = path.stat()
    assert (now.st_mode, now.st_mtime_ns) == (was.st_mode, was.st_mtime_ns)
    assert os.getxattr(path, "user.kept") == b"x"
    assert outcome.value == {name: refused for name, (_, refused) in SETS_ATTRIBUTES.items()}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no compiler")
def test_who_sets_modes_and_times_in_the_scratch_folder_goes_on(owned: Confine) -> None:
    """As compilers, linkers, copies and caches do."""

    def body() -> int:
        Path("seven.c").write_text("int seven(void) { return 7; }")
        for flags in (["-c", "-o", "seven.o", "seven.c"], ["-shared", "-o", "seven.so", "seven.o"]):
            subprocess.run(["gcc", "-fPIC", *flags], check=True)
        shutil.copy2("seven.so", "kept.so")
        shutil.copytree(".", "copies")
        subprocess.run(["cp", "-a", "kept.so", "again.so"], check=True)
        Path("kept.so").touch()
        with tempfile.TemporaryDirectory() as folder:
            shutil.move("again.so", folder)
        return int(ctypes.CDLL(os.path.abspath("kept.so")).seven())

    outcome = owned(body)
    assert (outcome.error, outcome.value) == ("", 7)


# --- other processes


def test_other_processes_are_not_seen_into(confined: Confine, tmp_path: Path) -> None:
    with open(tmp_path / "secret", "w+") as opened:
        names = ("mem", "environ", "maps", f"fd/{opened.fileno()}", "root/etc/hostname")
        opens = {name: partial(os.open, f"/proc/{os.getpid()}/{name}", os.O_RDONLY) for name in names}
        confined(lambda: errors_of(opens)).all_denied("files", "EACCES", "EPERM")


def test_its_own_entries_in_proc_are_open(confined: Confine) -> None:
    outcome = confined(lambda: [len(os.listdir("/proc/self/fd")) > 3, len(Path("/proc/self/maps").read_text()) > 100])
    assert outcome.value == [True, True]


def test_memory_of_the_parent_is_not_read(confined: Confine) -> None:
    secret = ctypes.create_string_buffer(b"secret")
    place, parent = ctypes.addressof(secret), os.getpid()

    def body() -> int:
        found = ctypes.create_string_buffer(8)
        local = (ctypes.c_void_p * 2)(ctypes.addressof(found), 6)
        remote = (ctypes.c_void_p * 2)(place, 6)
        one = ctypes.c_ulong(1)
        return call(number("process_vm_readv"), parent, local, one, remote, one, ctypes.c_ulong(0))

    confined(body).denied("system_calls")


def test_the_parent_is_not_traced(confined: Confine) -> None:
    parent = os.getpid()
    seize = 0x4206
    confined(lambda: call(number("ptrace"), ctypes.c_long(seize), parent, None, None)).denied("system_calls")


@pytest.mark.parametrize("target", ["parent", "sibling"])
def test_no_other_process_is_signalled(confined: Confine, target: str) -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as sibling:
        pid = os.getpid() if target == "parent" else sibling.pid
        # Signal 0 asks for permission only.
        outcome = confined(lambda: os.kill(pid, 0))
        sibling.kill()
    outcome.denied("signals", "EPERM")


def test_without_landlock_the_filter_guards_against_signals(scratch: Path) -> None:
    pid = os.getpid()
    confined = Confine(Limits(scratch, cuda=True), without_landlock)
    outcome = confined(lambda: os.kill(pid, 0))
    outcome.denied("system_calls", "EPERM")
    assert "signals" in outcome.confined.applied
    assert {"files", "truncation", "device_commands"} <= {*outcome.confined.lacking}
    assert outcome.confined.lacking["files"].startswith("needs Landlock (Linux 5.13, enabled at boot): ")
    assert confined(lambda: os.kill(os.getpid(), 0)).error == ""


SENDS_SIGNALS = {
    "owner": "fcntl.fcntl(read, fcntl.F_SETOWN, pid)",
    "owner of a group": "fcntl.fcntl(read, fcntl.F_SETOWN, -pid)",
    "owner of a kind": "fcntl.fcntl(read, 15, struct.pack('=ii', 1, pid))",
    "owner by a command": "fcntl.ioctl(read, 0x8901, struct.pack('=i', pid))",
    "group of a socket": "fcntl.ioctl(read, 0x8902, struct.pack('=i', pid))",
    "input of a terminal": "fcntl.ioctl(read, 0x5412, b'x')",
    "group of a terminal": "fcntl.ioctl(read, 0x5410, struct.pack('=i', pid))",
    "terminal": "fcntl.ioctl(read, 0x540E, 0)",
    "signal": "os.kill(pid, signal.SIGKILL)",
    "signal to a group": "os.killpg(pid, signal.SIGKILL)",
    "signal to a thread": "call(number('tgkill'), pid, pid, signal.SIGKILL)",
    "queued signal": "call(number('rt_sigqueueinfo'), pid, signal.SIGKILL, bytes(128))",
}


@pytest.mark.parametrize("landlock", [7, 5, 1])
def test_older_kernels_send_no_signal_for_it_either(
    owned: Confine, request: pytest.FixtureRequest, landlock: int
) -> None:
    user = PLAIN_USER if request.node.callspec.params["owned"] == "plain user" else None

    def before() -> None:
        owned.before()
        with_landlock(landlock)

    def act(how: str) -> None:
        ends = socket.socketpair()
        read = ends[0].fileno()
        fcntl.fcntl(read, fcntl.F_SETSIG, signal.SIGKILL)
        try:
            exec(how, {**globals(), "read": read, "pid": other.pid})
        finally:
            fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)
            ends[1].send(b"x")

    with subprocess.Popen(["/bin/sleep", "60"], user=user, start_new_session=True) as other:
        deeds = {name: partial(act, how) for name, how in SENDS_SIGNALS.items()}
        outcome = evolve(owned, before=before)(lambda: errors_of(deeds))
        ended = other.poll()
        other.kill()
    assert "signals" in outcome.confined.applied
    assert (outcome.value, ended) == (dict.fromkeys(SENDS_SIGNALS, "EPERM"), None)


@pytest.mark.parametrize("arranged", ["cpu", "cuda"])
def test_nothing_is_set_of_other_processes(scratch: Path, arranged: str) -> None:
    parent = os.getpid()
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    cores = os.sched_getaffinity(0)
    confined = Confine(Limits(scratch, cuda=arranged == "cuda"))
    confined(lambda: resource.prlimit(parent, resource.RLIMIT_NOFILE, limit)).denied("system_calls")
    pinned = confined(lambda: os.sched_setaffinity(parent, {min(cores)}))
    assert os.sched_getaffinity(0) == cores or "system_calls" in pinned.confined.lacking
    confined(lambda: os.setpriority(os.PRIO_PROCESS, parent, os.getpriority(os.PRIO_PROCESS, parent))).denied(
        "system_calls"
    )


WAYS_TO_OTHER_PROCESSORS = {
    "itself": "os.sched_setaffinity(0, everywhere)",
    "itself by its number": "os.sched_setaffinity(os.getpid(), everywhere)",
    "a thread": "in_thread(lambda: os.sched_setaffinity(0, everywhere))",
    "a thread by its number": "in_thread(lambda: os.sched_setaffinity(threading.get_native_id(), everywhere))",
    "a child of its parent": "in_child(lambda: os.sched_setaffinity(os.getppid(), everywhere))",
    "a child of itself": "in_child(lambda: os.sched_setaffinity(0, everywhere))",
    "a program": "subprocess.run(['taskset', '-a', '-p', 'ff', str(os.getpid())], check=True, capture_output=True)",
}


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a processor beside its own")
def test_it_stays_on_its_processors_and_is_told_that_it_moved(owned: Confine) -> None:
    """OpenMP, MKL and honest code bind threads when they start, and some end the process if that fails."""
    everywhere = os.sched_getaffinity(0)
    own = {max(everywhere)}

    def in_child(act: Callable[[], object]) -> None:
        if (pid := os.fork()) == 0:
            act()
            os._exit(os.sched_getaffinity(0) != own)
        assert os.waitpid(pid, 0)[1] == 0

    def in_thread(act: Callable[[], object]) -> None:
        found: list[set[int]] = []
        thread = threading.Thread(target=lambda: (act(), found.append(os.sched_getaffinity(0))))
        thread.start()
        thread.join()
        assert found == [own]

    def stays(way: str) -> bool:
        eval(way, {**globals(), **ways})
        return all(os.sched_getaffinity(int(task)) == own for task in os.listdir("/proc/self/task"))

    ways = {"everywhere": everywhere, "in_child": in_child, "in_thread": in_thread}
    tried = {name: partial(stays, way) for name, way in WAYS_TO_OTHER_PROCESSORS.items()}
    outcome = evolve(owned, before=lambda: (owned.before(), os.sched_setaffinity(0, own)))(lambda: errors_of(tried))
    outcome.needs("system_calls")
    assert (outcome.error, outcome.value) == ("", dict.fromkeys(tried, "returned True"))


def test_its_priority_stays(owned: Confine) -> None:
    def body() -> dict[str, str]:
        # The lowest priority, which any process may take. Of the first three calls the first argument is the process.
        setting = struct.pack("=IIQiIQQQ", 48, 0, 0, 19, 0, 0, 0, 0)
        deeds = {}
        for pid in (os.getpid(), 0):
            arguments = {
                "sched_setparam": (pid, bytes(4)),
                "sched_setscheduler": (pid, ctypes.c_long(os.SCHED_IDLE), bytes(4)),
                "sched_setattr": (pid, setting, ctypes.c_long(0)),
                "setpriority": (ctypes.c_long(0), pid, ctypes.c_long(19)),
                "ioprio_set": (ctypes.c_long(1), pid, ctypes.c_long(3 << 13)),
            }
            deeds |= {f"{name} of {pid}": partial(call, number(name), *given) for name, given in arguments.items()}
        return errors_of(deeds)

    owned(body).all_denied("system_calls", "EPERM")


def test_programs_are_started_and_ended(confined: Confine) -> None:
    def body() -> list[int]:
        child = subprocess.Popen(["/bin/sleep", "60"])
        child.kill()
        return [subprocess.run(["/bin/true"], check=False).returncode, child.wait()]

    assert confined(body).value == [0, -signal.SIGKILL]


def test_threads_run(confined: Confine) -> None:
    def body() -> int:
        done: list[int] = []
        threads = [threading.Thread(target=done.append, args=(1,)) for _ in range(8)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        return len(done)

    assert confined(body).value == 8


def test_processes_are_limited(confined: Confine) -> None:
    allowed, tried = 4, 8

    def body() -> int:
        started: list[int] = []
        try:
            while len(started) < tried:
                if (pid := os.fork()) == 0:
                    signal.pause()
                started.append(pid)
        except BlockingIOError:
            pass
        for pid in started:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return len(started)

    outcome = evolve(confined, limits=evolve(confined.limits, processes=allowed))(body)
    if reason := outcome.confined.lacking.get("processes"):
        assert outcome.value == tried
        pytest.skip(reason)
    assert outcome.error == ""
    assert outcome.value <= allowed


# --- system calls


def test_there_is_no_network(confined: Confine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        confined(lambda: socket.create_connection(address, timeout=2).close()).denied("system_calls")


def test_there_are_no_sockets_to_others(confined: Confine) -> None:
    kinds = (
        (socket.AF_INET, socket.SOCK_DGRAM),
        (socket.AF_INET6, socket.SOCK_STREAM),
        (socket.AF_NETLINK, socket.SOCK_RAW),
        (socket.AF_UNIX, socket.SOCK_DGRAM),
    )
    made = {str(one): partial(socket.socket, *one) for one in kinds}
    confined(lambda: errors_of(made)).all_denied("system_calls", "EACCES", "EPERM")


def test_services_of_the_machine_are_not_reached(scratch: Path) -> None:
    """On a GPU the driver has a Unix socket of its own; it still cannot reach, say, a container engine's."""
    path = str(scratch / "service")
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(path)
        service.listen()
        os.chmod(path, 0o777)

        def body() -> str:
            with socket.socket(socket.AF_UNIX) as mine:
                mine.connect(path)
            return "reached"

        Confine(Limits(scratch, cuda=True))(body).denied("system_calls")
        Confine(Limits(scratch))(body).denied("system_calls")


def test_pairs_of_sockets_work(confined: Confine) -> None:
    def body() -> str:
        one, other = socket.socketpair()
        with one, other:
            one.send(b"x")
            return other.recv(1).decode()

    assert confined(body).value == "x"


@pytest.mark.parametrize("send", ["sendmsg", "sendmmsg"])
def test_descriptors_are_not_hidden_in_sockets(scratch: Path, send: str) -> None:
    def body() -> None:
        one, _ = socket.socketpair()
        if send == "sendmsg":
            socket.send_fds(one, [b"x"], [0])
        call(number("sendmmsg"), one.fileno(), None, 0, 0)

    Confine(Limits(scratch))(body).denied("system_calls", "EPERM")
    assert Confine(Limits(scratch, cuda=True))(body).error == ""


ON_ALL_MACHINES = set(re.findall(r"(\w+) \d+ \d+", sandbox._TABLE))
DENIED = sorted(ON_ALL_MACHINES - sandbox._IN_SOME_FORMS)


def test_every_call_of_the_table_is_denied(confined: Confine) -> None:
    # Arguments that no call accepts, should the filter let one through.
    calls = {name: partial(call, number(name), *[ctypes.c_long(-1)] * 6) for name in DENIED}
    outcome = confined(lambda: errors_of(calls))
    outcome.needs("system_calls")
    answers = {name: sandbox._ANSWERS.get(name, errno.EPERM) for name in DENIED}
    assert outcome.value == {name: errno.errorcode.get(answer, "returned 0") for name, answer in answers.items()}


def test_who_is_told_that_a_group_was_made_stays_in_the_old_one(confined: Confine) -> None:
    """Ninja makes a group for each program that it starts; a process in one of its own would not be stopped with the others."""

    def body() -> bool:
        os.setpgid(0, 0)
        ask = [sys.executable, "-c", "import os; print(os.getpgrp())"]
        child = subprocess.run(ask, process_group=0, capture_output=True, text=True, check=True)
        return os.getpid() != os.getpgrp() == int(child.stdout)

    outcome = confined(body)
    outcome.needs("system_calls")
    assert outcome.value is True


def test_nobody_has_the_kernel_continue_a_stopped_process(confined: Confine, request: pytest.FixtureRequest) -> None:
    def body() -> list[str]:
        tried = [
            lambda: fcntl.fcntl(0, fcntl.F_SETSIG, signal.SIGCONT),
            lambda: call(number("prctl"), ctypes.c_long(1), ctypes.c_long(signal.SIGCONT)),
            lambda: call(number("timer_create"), ctypes.c_long(1), None, ctypes.byref(ctypes.c_long())),
            lambda: call(number("clone"), ctypes.c_long(signal.SIGCONT), None, None, None, None) or os._exit(0),
        ]
        found = errors_of({str(index): one for index, one in enumerate(tried)})
        call(number("prctl"), ctypes.c_long(1), ctypes.c_long(signal.SIGKILL))
        return [*found.values()]

    outcome = confined(body)
    outcome.needs("system_calls")
    on_gpus = request.node.callspec.params["confined"]
    assert outcome.value == ["EPERM", "EPERM", "returned 0" if on_gpus else "EPERM", "EPERM"]


def test_namespaces_are_not_made(confined: Confine) -> None:
    new_user_and_sigchld = 0x10000000 | signal.SIGCHLD
    confined(lambda: call(number("clone"), ctypes.c_long(new_user_and_sigchld), None, None, None, None)).denied(
        "system_calls", "EPERM"
    )
    confined(lambda: call(number("clone3"), None, ctypes.c_long(0))).denied("system_calls", "ENOSYS")


@pytest.mark.skipif(not HEADER.exists(), reason="no header of the kernel to compare with")
def test_numbers_are_those_of_the_kernel() -> None:
    theirs = dict(re.findall(r"#define __NR_(\w+) (\d+)", HEADER.read_text()))
    ours = dict(re.findall(r"(\w+) (\d+) (?:\d+|-)", sandbox._TABLE))
    assert {name: one for name, one in ours.items() if theirs.get(name, one) != one} == {}
    assert len(ours) > 70


@pytest.mark.skipif(not Path("/usr/include/asm-generic/unistd.h").exists(), reason="no header of the kernel")
def test_numbers_of_the_other_machine_are_those_of_the_kernel() -> None:
    text = Path("/usr/include/asm-generic/unistd.h").read_text()
    theirs = dict(re.findall(r"#define __NR(?:3264)?_(\w+) (\d+)", text))
    ours = dict(re.findall(r"(\w+) \d+ (\d+)", sandbox._TABLE))
    assert {name: one for name, one in ours.items() if theirs.get(name, one) != one} == {}


def test_an_unknown_machine_is_reported(scratch: Path) -> None:
    def elsewhere() -> None:
        sandbox.platform.machine = lambda: "riscv64"  # type: ignore[attr-defined]

    outcome = Confine(Limits(scratch), elsewhere)(lambda: None)
    assert outcome.confined.lacking["system_calls"] == ("the filter is written for x86_64 and aarch64; this is riscv64")


# --- identity, limits, what is inherited


def test_no_capabilities_remain_but_to_read_what_landlock_allows(confined: Confine) -> None:
    def body() -> dict[str, str]:
        return dict(re.findall(r"(Cap\w+|NoNewPrivs):\s*(\w+)", Path("/proc/self/status").read_text()))

    outcome = confined(body)
    assert outcome.value.pop("NoNewPrivs") == "1"
    allowed = {0}
    if {"files", "user"} <= {*outcome.confined.applied}:
        allowed.add(1 << 2)
    effective = int(outcome.value["CapEff"], 16)
    assert effective in allowed
    if os.geteuid() == 0:
        assert {int(one, 16) for one in outcome.value.values()} == {effective}


def test_a_user_of_its_own(scratch: Path) -> None:
    outcome = Confine(Limits(scratch))(lambda: [os.geteuid(), os.getegid(), os.getgroups()])
    if reason := outcome.confined.lacking.get("user"):
        assert os.geteuid() != 0 or reason.startswith("this root cannot take another user id: ")
        assert outcome.value[0] == os.geteuid()
        pytest.skip(reason)
    user, group, groups = outcome.value
    assert user == group
    assert user in range(61184, 65520)
    assert groups == []


def test_on_a_gpu_the_user_stays(scratch: Path) -> None:
    outcome = Confine(Limits(scratch, cuda=True))(lambda: os.geteuid())
    assert outcome.value == os.geteuid()
    assert outcome.confined.lacking["user"] == "NVIDIA's driver shares memory only between processes of the same user"


@pytest.mark.skipif(os.geteuid() != 0, reason="about root")
def test_without_landlock_a_user_that_cannot_read_python_is_not_taken(scratch: Path) -> None:
    """The folder of the tests is root's own, so nothing in it could be reached."""
    outcome = Confine(Limits(scratch), without_landlock)(lambda: [os.geteuid(), Path(os.__file__).is_file()])
    assert outcome.value == [0, True]
    assert outcome.confined.lacking["user"] == (
        "this root cannot take another user id: only root may read Python's folder, and there is no Landlock"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="about root")
def test_packages_in_a_folder_of_root_alone_can_be_read() -> None:
    """Python itself may lie where all can read it: an environment of root's does not always."""
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryDirectory() as packages:
        (Path(packages) / "package").mkdir()

        def install() -> None:
            os.__file__, sys.prefix = "/etc/passwd", packages

        outcome = Confine(Limits(Path(scratch)), install)(lambda: os.listdir(packages))
        assert (outcome.value, outcome.error) == (["package"], "")


def test_packages_that_an_environment_adds_can_be_read(tmp_path: Path) -> None:
    """As those of the environment that another one is based on, by a `.pth` file."""
    added, other = tmp_path / "base" / "site-packages", tmp_path / "other"
    for folder in (added, other):
        (folder / "package").mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:

        def install() -> None:
            sys.path += [str(added), str(other)]

        def read() -> list[object]:
            try:
                os.listdir(other)
            except PermissionError as error:
                return [os.listdir(added), error.strerror]
            return [os.listdir(added), ""]

        outcome = Confine(Limits(Path(scratch)), install)(read)
        assert (outcome.value, outcome.error) == ([["package"], "Permission denied"], "")


def without_landlock() -> None:
    with_landlock(-1)


def with_landlock(version: int) -> None:
    """Pretend a version; -1 for a kernel without it."""
    genuine = sandbox._system_call

    def call(number: int, *arguments: int | bytes | None) -> int:
        if number == sandbox._CREATE_RULESET and arguments[-1] == sandbox._VERSION_FLAG:
            return version
        return genuine(number, *arguments)

    sandbox._system_call = call


def test_a_change_of_user_leaves_no_trace(confined: Confine) -> None:
    """It ends with its parent, and its entries in /proc are its own."""

    def body() -> list[int]:
        on_end = ctypes.c_int()
        libc.prctl(2, ctypes.byref(on_end), 0, 0, 0)
        return [on_end.value, int(libc.prctl(3, 0, 0, 0, 0))]

    assert confined(body).value == [signal.SIGKILL, 1]


@pytest.mark.skipif(os.geteuid() != 0, reason="root can play a plain user, not the other way round")
def test_a_plain_user_is_confined_too() -> None:
    parent = os.getpid()
    with tempfile.TemporaryDirectory() as folder:

        def body() -> list[object]:
            Path("kept").write_text("x")
            return [os.geteuid(), *resource.getrlimit(resource.RLIMIT_NPROC), os.listdir("/root")]

        confined = Confine(Limits(Path(folder), processes=24), lambda: become_plain(folder))
        outcome = confined(body)
        assert outcome.confined.lacking.get("user") == "only root can give a process another user id"
        outcome.denied("files")
        confined(lambda: resource.prlimit(parent, resource.RLIMIT_CORE, (0, 0))).denied("system_calls")
        limited = confined(lambda: resource.getrlimit(resource.RLIMIT_NPROC)[1])
        # The process itself is one of those that its user runs.
        assert limited.value == 25


def test_where_memory_runs_out_it_goes_first(owned: Confine) -> None:
    assert owned(lambda: Path("/proc/self/oom_score_adj").read_text()).value == "1000\n"


def test_what_it_has_open_stays_visible(owned: Confine) -> None:
    outcome = owned(lambda: sandbox._prctl(sandbox._PR_SET_DUMPABLE, 0))
    outcome.denied("system_calls", "EPERM")


def test_files_are_limited_in_size(confined: Confine) -> None:
    def body() -> int:
        with open("large", "wb") as file:
            return file.write(bytes(1 << 17))

    assert confined(body).error == "EFBIG"


def test_descriptors_are_limited_in_number(scratch: Path) -> None:
    outcome = Confine(Limits(scratch, open_files=32))(lambda: [os.open("/dev/null", 0) for _ in range(40)])
    assert outcome.error == "EMFILE"


def test_descriptors_are_closed_but_for_those_that_it_is_given(scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    with open(tmp_path / "secret") as kept, open(tmp_path / "secret") as other:
        os.set_inheritable(other.fileno(), True)
        fds = kept.fileno(), other.fileno()
        confined = Confine(Limits(scratch, keep_fds=(fds[0],)))
        assert confined(lambda: os.fstat(fds[0]).st_size).value == 1
        assert confined(lambda: os.fstat(fds[1]).st_size).error == "EBADF"


def test_the_environment_holds_no_secrets(confined: Confine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_TOKEN", "hunter2")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    outcome = confined(lambda: dict(os.environ))
    assert "ACME_TOKEN" not in outcome.value
    assert outcome.value["OMP_NUM_THREADS"] == "3"


def test_nor_does_the_stack(tmp_path: Path, scratch: Path) -> None:
    script = f"""
import sys
from pathlib import Path
from aiperf_core.harness.isolation.sandbox import Limits, confine
confine(Limits(Path({str(scratch)!r})))
block = Path("/proc/self/environ").read_bytes()
sys.exit(3 if b"hunter2" in block or b"ACME" in block else 0 if b"PATH=" in block else 4)
"""
    environment = {**os.environ, "ACME_TOKEN": "hunter2"}
    run = subprocess.run([sys.executable, "-c", script], env=environment, check=False, capture_output=True)
    assert (run.returncode, run.stderr) == (0, b"")


def test_an_environment_is_cleaned(tmp_path: Path) -> None:
    environ = {
        "PATH": "/bin",
        "LC_ALL": "C",
        "CUDA_VISIBLE_DEVICES": "1",
        "GITHUB_TOKEN": "t",
        "HOME": "/root",
        "LD_PRELOAD": "x",
    }
    found = clean_environment(environ, tmp_path)
    assert {name: found.get(name) for name in environ} == {
        "PATH": "/bin",
        "LC_ALL": "C",
        "CUDA_VISIBLE_DEVICES": "1",
        "GITHUB_TOKEN": None,
        "HOME": str(tmp_path),
        "LD_PRELOAD": None,
    }
    folders = (
        "AIPERF_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "TORCH_EXTENSIONS_DIR",
        "XDG_CACHE_HOME",
    )
    assert all(Path(found[name]).parent == tmp_path for name in folders)
    assert found["AIPERF_CACHE_IS_REMOVED"] == "1"


# --- the whole


def test_threads_that_run_already_are_refused(scratch: Path) -> None:
    def start_thread() -> None:
        threading.Thread(target=signal.pause, daemon=True).start()

    outcome = Confine(Limits(scratch), start_thread)(lambda: None)
    assert outcome.error == "RuntimeError: a process must be confined before it starts threads; this one has 2"


def test_elsewhere_everything_is_lacking(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    confined = confine(Limits(scratch))
    assert confined == Confined([], dict.fromkeys(PROTECTIONS, "needs Linux; this is darwin"))


WORK = """
import os, sys
from pathlib import Path
import torch
from aiperf_core.harness.isolation.sandbox import Limits, confine
from aiperf_core.kernels.host import HostSource
from aiperf_core.errors import SkipError

def work(folder, cuda):
    confine(Limits(Path(folder), cuda=cuda))
    code = 1
    try:
        a, b = torch.randn(513, 513), torch.randn(513, 513)
        assert torch.allclose(a.double() @ b.double(), (a @ b).double(), atol=1e-3)
        Path("twice.c").write_text("void twice(float *x, long n) { for (long i = 0; i < n; ++i) x[i] *= 2; }")
        x = torch.ones(5)
        try:
            HostSource(Path("twice.c").resolve()).call("twice", x, 5)
        except SkipError:
            x *= 2
        assert x.tolist() == [2.0] * 5
        import jinja2  # torch imports it when it compiles: packages are found after the confinement
        code = 0
    except BaseException:
        import traceback
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)

assert "jinja2" not in sys.modules
codes = []
for folder, cuda in zip(sys.argv[1:], (False, True), strict=True):
    if os.fork() == 0:  # as the fork server does: its libraries may have started threads
        work(folder, cuda)
    codes.append(os.waitstatus_to_exitcode(os.wait()[1]))
sys.exit(max(codes))
"""


def test_honest_work_goes_on(tmp_path: Path) -> None:
    """Without a GPU, and as on one."""
    folders = [tmp_path / name for name in ("cpu", "cuda")]
    for folder in folders:
        folder.mkdir(mode=0o700)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", WORK, *map(str, folders)]
    environment = {**os.environ, "OMP_PROC_BIND": "true"}  # OpenMP then binds each of its threads
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize(
    ("compiler", "open_to_it"),
    [
        ("/opt/gcc/bin/gcc", "/opt/gcc"),
        ("/home/user/bin/gcc", None),  # all of the user's files would be open
        ("/opt/bin/gcc", None),
        (None, None),
    ],
)
def test_a_compiler_below_opt_can_be_started(
    monkeypatch: pytest.MonkeyPatch, compiler: str | None, open_to_it: str | None
) -> None:
    monkeypatch.setattr(sandbox.shutil, "which", lambda _: None)
    usual = [*sandbox._code_folders()]
    monkeypatch.setattr(sandbox.shutil, "which", lambda name: compiler if name == "gcc" else None)
    assert [*sandbox._code_folders()] == [*usual, *([open_to_it] if open_to_it else [])]

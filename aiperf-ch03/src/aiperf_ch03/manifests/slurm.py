"""Rules of Slurm's batch scripts."""

import re
import shlex
from collections.abc import Iterator

from attrs import define, field

from aiperf_ch03.manifests.rules import Mark
from aiperf_ch03.manifests.shell import calls, interleaves

DIRECTIVE = re.compile(r"#SBATCH\b(.*)")
_SHORT = {"-c": "cpus-per-task", "-n": "ntasks", "-N": "nodes", "-t": "time", "-G": "gpus"}
_GPUS = ("gpus", "gres", "gpus-per-node", "gpus-per-task", "gpus-per-socket")
_CPUS = ("cpus-per-task", "cpus-per-gpu", "exclusive")
_THREADS = re.compile(r"\bOMP_NUM_THREADS=[\"']?(\d+)")


@define
class Script:
    """A script.

    options: of its directives, by their long names, with value and line.
    late: the lines of directives after the first command, with their text.
    commands: its commands with their first lines, those that continue joined.
    """

    options: dict[str, tuple[str, int]] = field(factory=dict)
    late: list[tuple[int, str]] = field(factory=list)
    commands: list[tuple[int, str]] = field(factory=list)


def parsed(text: str) -> Script:
    """The directives and commands of a script."""
    script = Script()
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if match := DIRECTIVE.match(line):
            if script.commands:
                script.late.append((number, line.strip()))
            else:
                script.options |= {name: (value, number) for name, value in options(match[1])}
        elif line.strip() and not line.lstrip().startswith("#"):
            command = line.strip()
            while command.endswith("\\"):
                command = command[:-1] + next((rest.strip() for _, rest in lines), "")
            script.commands.append((number, command))
    return script


def options(text: str) -> Iterator[tuple[str, str]]:
    """The options in the arguments of a directive or of srun, up to the program, by their long names."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError:  # a quote that is not closed, as in a text over several lines
        words = text.split()
    while words:
        word = words.pop(0)
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            takes_next = not equals and words and not words[0].startswith("-") and name not in ("exclusive", "requeue")
            yield name, words.pop(0) if takes_next else value
        elif word.startswith("-") and len(word) > 1:
            value = word[2:].lstrip("=") or (words.pop(0) if words and not words[0].startswith("-") else "")
            yield _SHORT.get(word[:2], word[1:]), value
        else:
            return


def lint(text: str) -> Iterator[Mark]:
    """The places of a script that break a rule."""
    script = parsed(text)
    given = script.options
    for line, directive in script.late:
        yield Mark("slurm.late_directive", line, directive)
    gpus = next((name for name in _GPUS if name in given and (name != "gres" or "gpu" in given[name][0])), None)
    if gpus and not any(name in given for name in _CPUS):
        yield Mark("slurm.cpus", given[gpus][1], f"--{gpus}={given[gpus][0]} without --cpus-per-task")
    if "time" not in given:
        first = min((line for _, line in given.values()), default=1)
        yield Mark("slurm.time", first, "no --time")
    yield from _commands(script)


def _commands(script: Script) -> Iterator[Mark]:
    given = script.options
    cpus = _number(given.get("cpus-per-task", ("", 0))[0])
    exported = any("SRUN_CPUS_PER_TASK" in command for _, command in script.commands)
    for line, command in script.commands:
        if interleaves(command):
            yield Mark("slurm.interleave", line, command)
        threads = _THREADS.search(command)
        if threads and cpus and int(threads[1]) > cpus:
            yield Mark("slurm.threads", line, f"OMP_NUM_THREADS={threads[1]} with --cpus-per-task={cpus}")
        for arguments in calls(command, "srun"):
            own = dict(options(arguments))
            if "cpus-per-task" in given and "cpus-per-task" not in own and not exported:
                yield Mark("slurm.srun_cpus", line, "srun without --cpus-per-task")
            if own.get("cpu-bind") in ("none", "no"):
                yield Mark("slurm.cpu_bind", line, f"--cpu-bind={own['cpu-bind']}")
            tasks = _number(own.get("ntasks-per-node", given.get("ntasks-per-node", ("", 0))[0])) or 1
            if tasks > 1 and re.search(r"\btorchrun\b", arguments) and _ranks(arguments) != "1":
                yield Mark("slurm.launchers", line, f"torchrun with --ntasks-per-node={tasks}")


def _ranks(command: str) -> str:
    """The ranks that a torchrun starts, as written; empty where it does not say."""
    match = re.search(r"--nproc[-_]per[-_]node[= ](\S+)", command)
    return match[1] if match else "1"


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() else None

"""Commands of a shell, as manifests have them."""

import re

_INTERLEAVE = re.compile(r"(--interleave[= \"',]{1,4}|-i[ \"',]{0,4})all\b")


def interleaves(command: str) -> bool:
    """Whether a command starts a program under a policy that spreads its memory over all nodes."""
    return _INTERLEAVE.search(command.partition("numactl")[2]) is not None


def calls(command: str, program: str) -> list[str]:
    """The arguments of each call of a program in a line of a script, after variables that are set for it."""
    found = []
    for part in re.split(r"[;&|]+", command):
        words = part.split()
        while words and "=" in words[0]:
            words.pop(0)
        if words[:1] == [program]:
            found.append(" ".join(words[1:]))
    return found


def installed(command: str, programs: tuple[str, ...]) -> list[list[str]]:
    """The words after `install` in each call of one of these programs, options among them."""
    found = []
    for part in re.split(r"[;&|\n]+", command):
        words = part.split()
        place = words.index("install") if "install" in words else 0
        if any(word.rpartition("/")[2] in programs for word in words[:place]):
            found.append(words[place + 1 :])
    return found

"""What `aiperf ci init` prints: a suite to start from, and snippets for schedulers. Nothing is installed."""

import json
import re
import shlex
from pathlib import Path

from aiperf_core.errors import UsageError
from aiperf_core.names import words

SUITE = """\
# A suite of aiperf. All fields with their meaning: aiperf schema ci-suite
name = "nightly"
targets = ["practice.*"]        # as for aiperf run: names, groups, globs, tag:NAME
tier = "standard"               # quick, standard, audit
# machine = "nvidia-h200-x1"    # the kind of machine that is demanded

[busy]                          # a busy machine is not measured: exit code 75
processors = 0.10
gpu_processes = 0
wait_s = 300

[[gates]]
metric = "time"                 # time, speedup, memory, energy
floor = 0.01                    # smaller changes never stop
confirm = 1                     # runs that must agree with a suspect

[[gates]]
metric = "memory"
floor = 0.01
"""

_SYSTEMD = """\
# ~/.config/systemd/user/aiperf-{name}.service
[Unit]
Description=aiperf suite {name}

[Service]
Type=oneshot
WorkingDirectory={folder}
ExecStart={python} -m aiperf_core ci run {suite}
# 75: the machine was busy. 4: a regression; the unit fails, and OnFailure= may tell.
SuccessExitStatus=75
# Of a unit of the system, which may take precedence over other work:
# Nice=-5

# ~/.config/systemd/user/aiperf-{name}.timer
[Unit]
Description=aiperf suite {name}, every night

[Timer]
OnCalendar=*-*-* 02:00:00
# A night that the machine slept through is made up for.
Persistent=true

[Install]
WantedBy=timers.target

# Then: systemctl --user daemon-reload && systemctl --user enable --now aiperf-{name}.timer
"""

_CRON = """\
# crontab -e. The lock of aiperf ci keeps two suites apart; 75 means that the machine was busy.
0 2 * * * cd {folder} && mkdir -p {home} && {python} -m aiperf_core ci run {suite} >> {home}/cron.log 2>&1
"""

_GITHUB = """\
# .github/workflows/aiperf.yml
name: aiperf
on: [push, pull_request]
concurrency: aiperf          # one at a time; the lock of the host keeps other users apart
jobs:
  {name}:
    runs-on: [self-hosted, aiperf]      # a machine of your own: figures of shared runners are noise
    steps:
      - uses: actions/checkout@v4
        with:
          clean: false                  # keeps the history in the suite's folder
      - run: {run}
      - if: always()
        run: {show}
      - if: always()
        uses: actions/upload-artifact@v4
        with:
          name: aiperf
          path: {report}
"""

_GITLAB = """\
# .gitlab-ci.yml
aiperf-{name}:
  tags: [aiperf]                        # a runner of your own: figures of shared runners are noise
  resource_group: aiperf                # one at a time
  variables:
    GIT_CLEAN_FLAGS: none               # keeps the history in the suite's folder
  script:
    - {run}
  allow_failure:
    exit_codes: [75]                    # the machine was busy
  artifacts:
    when: always
    paths: [{report}]
    reports:
      junit: {junit}
"""

SNIPPETS = {"systemd": _SYSTEMD, "cron": _CRON, "github": _GITHUB, "gitlab": _GITLAB}
# What a path must not have: bytes that are no text, where each character can be escaped; also ends of lines, where not.
_UNDECODABLE, _CONTROL = r"[\ud800-\udfff]", r"[\x00-\x1f\x7f\ud800-\udfff]"
# A folder of systemd has no quotes: a backslash at its end would join the next line, and a blank would be lost. A
# program of systemd must not have quotes in its name.
_FOLDER, _PROGRAM = rf"{_CONTROL}|[\\ ]\Z", rf"{_CONTROL}|[\"'\\]"


def snippet(kind: str, suite: Path, name: str, home: Path, python: str) -> str:
    """The text for a scheduler. Raises UsageError for a path that its file cannot hold."""
    here, whole = str(Path.cwd()), str(suite.absolute())  # CI checks out the repository elsewhere
    if kind == "systemd":
        fields = {
            "folder": _held(here, _FOLDER).replace("%", "%%"),
            "python": _unit_word(_held(python, _PROGRAM)),  # the program, in which `$` is no variable
            "suite": _unit_word(_held(whole, _UNDECODABLE)).replace("$", "$$"),
        }
    elif kind == "cron":
        paths = {"folder": here, "python": python, "suite": whole, "home": str(home.absolute())}
        fields = {place: _cron_word(_held(path, _CONTROL)) for place, path in paths.items()}
    else:
        report = _held(_no_option(home / "report"), _UNDECODABLE)
        texts = {
            "run": f"aiperf ci run {shlex.quote(_held(_no_option(suite), _UNDECODABLE))}",
            "show": f'cat {shlex.quote(f"{report}/summary.md")} >> "$GITHUB_STEP_SUMMARY"',
            "report": report,
            "junit": f"{report}/junit.xml",
        }
        fields = {place: _yaml(text) for place, text in texts.items()}
    return SNIPPETS[kind].format(name=name, **fields)


def _held(path: str, unfit: str) -> str:
    """The path. Raises UsageError where it has a character that is unfit."""
    if found := re.search(unfit, path):
        end = " at its end" if found.end() == len(path) else ""
        raise UsageError(
            f"the path '{words(path)}' has the character {found[0]!a}{end}, which the file of the scheduler cannot "
            "hold. Rename it, and try again."
        )
    return path


def _no_option(path: Path) -> str:
    """The path, in a form that no command takes for an option."""
    return f"./{path}" if str(path).startswith("-") else str(path)


def _unit_word(text: str) -> str:
    """A word of a command line of systemd: in quotes, with escapes as in C, and `%` twice."""
    if re.fullmatch(r"[\w./=@+,:-]+", text, re.ASCII):
        return text
    text = text.replace("\\", r"\\").replace('"', r"\"").replace("%", "%%")
    return '"' + re.sub(_CONTROL, lambda found: f"\\x{ord(found[0]):02x}", text) + '"'


def _cron_word(text: str) -> str:
    """A word of the shell in a crontab: a bare `%` ends the line, and so does one after an escaped backslash."""
    return shlex.quote(text).replace("\\%", "\\''%").replace("%", r"\%")


def _yaml(text: str) -> str:
    """A scalar of YAML, which has the strings of JSON."""
    plain = re.fullmatch(r"""[\w./][\w./=@+ >"'$-]*""", text, re.ASCII)
    return text if plain else json.dumps(text, ensure_ascii=False)

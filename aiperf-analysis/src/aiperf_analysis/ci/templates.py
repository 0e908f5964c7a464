"""What `aiperf ci init` prints: a suite to start from, and snippets for schedulers. Nothing is installed."""

from pathlib import Path

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
0 2 * * * cd {folder} && {python} -m aiperf_core ci run {suite} >> {log} 2>&1
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
      - run: aiperf ci run {suite}
      - if: always()
        run: cat {home}/report/summary.md >> "$GITHUB_STEP_SUMMARY"
      - if: always()
        uses: actions/upload-artifact@v4
        with:
          name: aiperf
          path: {home}/report
"""

_GITLAB = """\
# .gitlab-ci.yml
aiperf-{name}:
  tags: [aiperf]                        # a runner of your own: figures of shared runners are noise
  resource_group: aiperf                # one at a time
  variables:
    GIT_CLEAN_FLAGS: none               # keeps the history in the suite's folder
  script:
    - aiperf ci run {suite}
  allow_failure:
    exit_codes: [75]                    # the machine was busy
  artifacts:
    when: always
    paths: [{home}/report]
    reports:
      junit: {home}/report/junit.xml
"""

SNIPPETS = {"systemd": _SYSTEMD, "cron": _CRON, "github": _GITHUB, "gitlab": _GITLAB}


def snippet(kind: str, suite: Path, name: str, home: Path, python: str) -> str:
    """The text for a scheduler."""
    here = Path.cwd()
    # CI checks out the repository elsewhere; the others need a whole path.
    shown = suite.absolute() if kind in ("systemd", "cron") else suite
    return SNIPPETS[kind].format(
        name=name, suite=shown, folder=here, home=home, python=python, log=home.absolute() / "cron.log"
    )

"""Removes secrets and private names from texts and JSON documents."""

import getpass
import os
import platform
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from attrs import define, field

from aiperf_core.folders import home_folder

SECRET, NAME = "<secret removed>", "<name removed>"
HOME, GPU = "<home>", "GPU-<uuid removed>"

# Names of variables, options and keys whose values are secrets.
_SECRET_NAME = re.compile(
    r"(?:^|[_\-.])(?:tokens?|keys?|api_?keys?|secrets?|pass(?:word|wd|phrase)?|credentials?|auth(?:orization|entication)?|cookies?|private|pat|"
    r"dsn)(?:$|[_\-.])",
    re.IGNORECASE,
)
# Variables that name other machines.
_ADDRESS_NAME = re.compile(
    r"(?:^|_)(?:addr|address|hosts?|hostname|url|uri|proxy|nodelist|endpoint)(?:$|_)", re.IGNORECASE
)
_OPTION = re.compile(r"^--?([A-Za-z][\w\-.]*)$")
_ASSIGNED = re.compile(r"(?P<name>[A-Za-z][\w\-.]*)(?P<sign>\s*[=:]\s*)(?P<value>[^\s,;&\"']{2,})")
# An option and its value in a command line.
_GIVEN = re.compile(r"(?P<name>--?[A-Za-z][\w\-.]*)(?P<sign>\s+)(?P<value>[^\s\-][^\s]*)")
# The part of a URL with a user and a password.
_IN_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*://)[^/@\s\"']+@")
# Tokens that are recognised by their form.
_FORMS = re.compile(
    r"hf_[A-Za-z0-9]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w\-]{16,}|sk-[\w\-]{16,}|"
    r"xox[abprs]-[\w\-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}|AIza[\w\-]{30,}|nvapi-[\w\-]{20,}|"
    r"eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*|(?<=Bearer )[\w\-.~+/=]{8,}|-----BEGIN [A-Z ]*PRIVATE KEY-----[^\"]*"
)
_HOMES = re.compile(r"(?P<root>/(?:home|Users)/)(?P<user>[^/\s\"':,]+)")
_GPU = re.compile(r"(?:GPU|MIG)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_SHORTEST_SECRET, _SHORTEST_NAME = 6, 3
# Names of accounts and machines that identify no person and no machine.
_COMMON = frozenset(
    {"root", "user", "users", "admin", "nobody", "ubuntu", "debian", "runner", "docker", "localhost", "host", "home",
     "none", "null", "unknown", "true", "false", "cuda", "torch", "aiperf", "python", "linux"}
)  # fmt: skip


@define
class Redactor:
    """Removes secrets always, and private names unless they are kept.

    secrets: texts that are secrets wherever they stand.
    hosts, users: names of machines and of accounts.
    homes: home folders.
    removed: how often what was removed.
    """

    secrets: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    users: frozenset[str] = frozenset()
    homes: frozenset[str] = frozenset()
    keep_names: bool = False
    removed: Counter[str] = field(factory=Counter)

    def text(self, content: str) -> str:
        """A text without secrets and names."""
        for secret in sorted(self.secrets, key=len, reverse=True):
            content = self._counted(re.compile(re.escape(secret)), SECRET, content, "secrets")
        content = self._counted(_FORMS, SECRET, content, "secrets")
        content = self._counted(_IN_URL, rf"\g<scheme>{SECRET}@", content, "secrets")
        for pattern in (_ASSIGNED, _GIVEN):
            content = pattern.sub(self._assigned, content)
        return content if self.keep_names else self._names(content)

    def value(self, document: Any) -> Any:
        """A JSON document without secrets and names, keys included."""
        if isinstance(document, dict):
            return {self.text(str(key)): self._entry(str(key), one) for key, one in document.items()}
        if isinstance(document, list):
            return self._list(document)
        return self.text(document) if isinstance(document, str) else document

    def variables(self, environ: Mapping[str, str]) -> dict[str, str]:
        """Environment variables; those that hold a secret, or name another machine, keep their name only."""
        found = {}
        for name, value in sorted(environ.items()):
            if _SECRET_NAME.search(name) and value:
                self.removed["secrets"] += 1
                found[name] = SECRET
            elif _ADDRESS_NAME.search(name) and value and not self.keep_names:
                self.removed["names"] += 1
                found[name] = NAME
            else:
                found[name] = self.text(value)
        return found

    def _entry(self, key: str, value: Any) -> Any:
        if _SECRET_NAME.search(key) and isinstance(value, str) and value:
            self.removed["secrets"] += 1
            return SECRET
        if key == "hostname" and isinstance(value, str) and not self.keep_names:
            self.removed["names"] += 1
            return NAME
        return self.value(value)

    def _list(self, items: list[Any]) -> list[Any]:
        """A list, such as a command line, in which a secret may follow its option."""
        found: list[Any] = []
        hidden = False
        for item in items:
            option = _OPTION.match(item) if isinstance(item, str) else None
            if hidden and isinstance(item, str) and option is None:
                self.removed["secrets"] += 1
                found.append(SECRET)
            else:
                found.append(self.value(item))
            hidden = option is not None and bool(_SECRET_NAME.search(option[1]))
        return found

    def _assigned(self, match: re.Match[str]) -> str:
        """NAME=VALUE, or --name VALUE, whose name tells that the value is a secret."""
        name, value = match["name"].lstrip("-"), match["value"]
        if not _SECRET_NAME.search(name) or value.startswith("<secret"):
            return match[0]
        self.removed["secrets"] += 1
        return f"{match['name']}{match['sign']}{SECRET}"

    def _names(self, content: str) -> str:
        for home in sorted(self.homes, key=len, reverse=True):
            content = self._counted(re.compile(rf"{re.escape(home)}(?![\w.\-])"), HOME, content, "names")
        content = self._counted(_HOMES, rf"\g<root>{NAME}", content, "names")
        content = self._counted(_GPU, GPU, content, "names")
        for host in sorted(self.hosts, key=len, reverse=True):
            # With the domain after it.
            pattern = rf"(?<![A-Za-z0-9]){re.escape(host)}(?:\.[A-Za-z0-9\-]+)*(?![A-Za-z0-9])"
            content = self._counted(re.compile(pattern, re.IGNORECASE), NAME, content, "names")
        for user in sorted(self.users, key=len, reverse=True):
            pattern = rf"(?<![A-Za-z0-9]){re.escape(user)}(?![A-Za-z0-9])"
            content = self._counted(re.compile(pattern), NAME, content, "names")
        return content

    def _counted(self, pattern: re.Pattern[str], by: str, content: str, what: str) -> str:
        content, count = pattern.subn(by, content)
        self.removed[what] += count
        return content


def redactor(hosts: Iterable[str] = (), *, keep_names: bool = False) -> Redactor:
    """A redactor that knows the names and secrets of this machine and process.

    hosts: names of other machines, such as those of stored runs.
    """
    environ = os.environ
    secrets = {value for name, value in environ.items() if _SECRET_NAME.search(name) and len(value) >= _SHORTEST_SECRET}
    secrets -= {value for value in secrets if os.path.exists(value) or value.lower() in _COMMON}
    home = home_folder()
    users = {environ.get(name, "") for name in ("USER", "LOGNAME", "SUDO_USER", "USERNAME")} | {_user()}
    users |= {home.name} if home else set()
    machines = {name for host in (platform.node(), environ.get("HOSTNAME", ""), *hosts) for name in _spellings(host)}
    return Redactor(
        secrets=frozenset(secrets),
        hosts=frozenset(filter(_private, machines)),
        users=frozenset(filter(_private, users)),
        homes=frozenset({str(home)} - {"/"}) if home else frozenset(),
        keep_names=keep_names,
    )


def _private(name: str) -> bool:
    return len(name) >= _SHORTEST_NAME and name.lower() not in _COMMON


def _spellings(host: str) -> set[str]:
    return {host, host.partition(".")[0]}


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""

"""`aiperf new`: what it makes is installed, listed, linted, run and tested as it is."""

import os
import re
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from click.testing import CliRunner

import aiperf_core
from aiperf_core.cli import new as module
from aiperf_core.cli.main import Shell
from aiperf_core.plugins import load_plugins

# The plugin is loaded by its entry point, unless the core was installed before it had one.
PYTEST = [] if entry_points(group="pytest11", name="aiperf") else ["-p", "aiperf_core.pytest_plugin"]
PYTEST += ["-p", "no:cacheprovider", "-W", "error"]


def new(*arguments):
    return CliRunner().invoke(Shell(load_plugins([])), ["new", *map(str, arguments)])


@pytest.fixture(scope="module", params=["chapter", "plugin"])
def package(request, tmp_path_factory):
    """A new package of each kind, and the environment in which it is installed."""
    return made_in(tmp_path_factory.mktemp(request.param), request.param)


def made_in(folder, kind="chapter"):
    """A new package in a folder, and the environment in which it is installed."""
    made = folder / "aiperf-acme"
    result = new("aiperf-acme", "--kind", kind, "--out", made)
    assert result.exit_code == 0, result.output
    project = tomllib.loads((made / "pyproject.toml").read_text())["project"]
    (points,) = project["entry-points"].values()
    info = folder / "site" / "aiperf_acme-0.1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [f"{name} = {value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text("\n".join(["[aiperf_core]", *lines, ""]))
    search = [str(made / "src"), str(info.parent), os.environ.get("PYTHONPATH", "")]
    return made, {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, search))}


def run(package, *arguments):
    folder, environment = package
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def kind_of(package):
    return package[0].parent.name.rstrip("0123456789")


def test_it_is_listed(package):
    done = run(package, "aiperf_core", "list", "acme")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[1:] == [
        "acme.scale_and_shift  speed  cpu, cuda  One pass over the data instead of two"
    ]


@pytest.mark.parametrize("package", ["plugin"], indirect=True)
def test_the_tests_of_a_plugin_pass(package):
    """Its own are more than those of a chapter; its targets are the same."""
    done = run(package, "pytest", *PYTEST)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_the_readme_lists_the_target_as_the_contents_page_does(package):
    rows = [line for line in (package[0] / "README.md").read_text().splitlines() if line.startswith("| `acme.")]
    assert rows == ["| `acme.scale_and_shift` | cpu, cuda | One pass over the data instead of two |"]


def test_a_plugin_has_a_command(package):
    done = run(package, "aiperf_core", "acme")
    if kind_of(package) == "plugin":
        assert done.stdout == "acme.scale_and_shift: aiperf-acme 0.1.0\n"
    else:
        assert done.stderr == "aiperf: 'acme' is not a command. All commands: aiperf help --all\n"


def test_its_form_is_good(package):
    """What is made has no name of ours left in it, and linters have nothing to say."""
    texts = {path: path.read_text() for path in package[0].rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert not [path for path, text in texts.items() if "$package" in text or "$group" in text or "PACKAGE" in text]
    assert f"~={aiperf_core.__version__.rpartition('.')[0]}.0" in texts[package[0] / "pyproject.toml"]
    assert "python-version: ${{ matrix.python }}\n" in texts[package[0] / ".github/workflows/tests.yml"]
    ruff = Path(sys.executable).with_name("ruff")
    if ruff.exists():
        for check in (["check", "--select", "B,C4,E,F,I,PT,RUF,SIM,UP,W"], ["format", "--check"]):
            command = [ruff, *check, "--isolated", "--line-length", "120"]
            done = subprocess.run(command, cwd=package[0], capture_output=True, text=True)
            assert done.returncode == 0, done.stdout + done.stderr


def test_it_says_what_to_do_next(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = new("Acme_Kernels")
    assert (result.exit_code, result.stdout) == (
        0,
        "'Acme_Kernels' holds the package 'Acme_Kernels'. Try it:\n\n"
        "  cd Acme_Kernels\n"
        '  pip install -e ".[test]"\n'
        "  aiperf run acme-kernels\n"
        "  pytest --aiperf=acme-kernels\n",
    )
    assert (tmp_path / "Acme_Kernels/src/acme_kernels/plugin.py").exists()
    assert os.listdir(tmp_path) == ["Acme_Kernels"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("-acme", "use letters, digits, '-', '_' and '.', with a letter or digit first and last"),
        ("ac me", "use letters, digits, '-', '_' and '.', with a letter or digit first and last"),
        ("3d", "Python cannot import '3d'"),
        ("class", "Python cannot import 'class'"),
        ("aiperf-all", "'all.*' is not a valid pattern for its benchmarks"),
        ("aiperf-7", "'7.*' is not a valid pattern for its benchmarks"),
    ],
)
def test_names_that_cannot_be(tmp_path, name, reason):
    result = new("--out", tmp_path / "new", "--", name)
    assert (result.exit_code, result.stderr) == (
        2,
        f"aiperf: {name!r} cannot name a package of benchmarks: {reason}. A valid name is 'aiperf-acme'.\n",
    )
    assert os.listdir(tmp_path) == []


def test_names_that_are_taken(site, tmp_path):
    site.install("aiperf-acme", "@hookimpl\ndef aiperf_commands():\n    yield Command('zap', 'Zap.', lambda: None)\n")
    site.install("aiperf-broken", "1 / 0")
    plugins = site.load()

    def refused(*arguments):
        result = CliRunner().invoke(Shell(plugins), ["new", "--out", str(tmp_path / "new"), *arguments])
        assert result.exit_code == 2
        assert not (tmp_path / "new").exists()
        return result.stderr

    taken = "aiperf: The group 'acme' is already provided by aiperf-acme 0.3. Choose another name.\n"
    assert refused("acme") == taken
    assert refused("aiperf-broken") == (
        "aiperf: The group 'broken' is already provided by aiperf-broken 0.3. Choose another name.\n"
    )
    assert refused("aiperf-zap", "--kind", "plugin") == (
        "aiperf: The command 'zap' is already provided by aiperf-acme 0.3. "
        "Choose another name, or --kind chapter, which adds no command.\n"
    )
    assert refused("torch") == "aiperf: The module 'torch' is already installed here. Choose another name.\n"


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "there").mkdir()
    assert new("aiperf-acme", "--out", tmp_path / "there").stderr == (
        f"aiperf: '{tmp_path}/there' already exists, and is not overwritten. Choose another folder: --out FOLDER\n"
    )
    assert new("aiperf-acme", "--out", tmp_path / "no/where").stderr == (
        f"aiperf: '{tmp_path}/no' is not a folder. Create it first.\n"
    )


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_nothing_half_made_stays(tmp_path, monkeypatch, error):
    written = []

    def fail(path, text, encoding):
        written.append(path)
        if len(written) == 3:
            raise error
        return write_text(path, text, encoding)

    write_text = Path.write_text
    monkeypatch.setattr(Path, "write_text", fail)
    result = new("aiperf-acme", "--out", tmp_path / "new")
    assert result.exit_code != 0
    if isinstance(error, OSError):
        assert result.stderr == (
            f"aiperf: cannot create '{tmp_path}/new': No space left on device. Choose another folder: --out FOLDER\n"
        )
    assert os.listdir(tmp_path) == []


def test_every_kind_has_its_templates():
    folders = {path.name for path in (Path(module.__file__).parents[1] / "templates").iterdir()}
    assert folders == {"target"}.union(*module.KINDS.values())


def files_of(package):
    return {
        path.relative_to(package[0]): path.read_text()
        for path in package[0].rglob("*")
        if path.suffix != ".pyc"
        if path.is_file()
    }


def test_a_target_added_to_a_package_is_three_changes_and_its_workflow_passes(tmp_path):
    package = made_in(tmp_path)
    before = files_of(package)
    done = run(package, "aiperf_core", "new", "--target", "acme.row_means")
    source = package[0] / "src/aiperf_acme"
    assert (done.returncode, done.stdout) == (
        0,
        f"'acme.row_means' is in '{source}/row_means.py', with its kernel in '{source}/kernels/row_means.cu' and its "
        f"line in '{source}/plugin.py'.\nTry it:\n\n"
        "  aiperf run acme.row_means --size smoke\n"
        "  pytest --aiperf=acme.row_means\n",
    )
    after = files_of(package)
    src = Path("src/aiperf_acme")
    assert {path for path in after if after[path] != before.get(path)} == {
        src / "row_means.py", src / "kernels/row_means.cu", src / "plugin.py"
    }  # fmt: skip
    line = '    yield Target("row_means", "Row means", goal="speed", devices=("cpu", "cuda"))\n'
    assert after[src / "plugin.py"] == before[src / "plugin.py"] + line
    listed = run(package, "aiperf_core", "list", "acme").stdout.splitlines()
    assert [one.split()[0] for one in listed[1:]] == ["acme.scale_and_shift", "acme.row_means"]
    workflow = (package[0] / ".github/workflows/tests.yml").read_text()
    install, *lines = re.findall(r"- run: (.*)", workflow)
    assert install == 'pip install -e ".[test]"'
    assert lines == ["aiperf list acme", "aiperf lint acme", "aiperf kernels acme", "pytest --aiperf=acme"]
    said = {}
    for line in lines[1:]:
        program, *arguments = shlex.split(line)
        done = run(package, *(["aiperf_core"] if program == "aiperf" else ["pytest", *PYTEST]), *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "failed" not in done.stdout
        said[line] = done.stdout
    assert "3 passed" in said["pytest --aiperf=acme"]
    linted = said["aiperf lint acme"]
    assert ("problem" in linted, "note" in linted) == (False, False), linted
    test_its_form_is_good(package)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("row_means", "'row_means' cannot name a target. A valid name is 'acme.row_means'."),
        ("acme.row means", "'acme.row means' cannot name a target. A valid name is 'acme.row_means'."),
        ("acme.double", "'acme.double' exists already. Choose another name."),
        ("acme.there", "'{package}/there.py' already exists, and is not overwritten. Choose another name."),
        (
            "ajax.row_means",
            "No installed plugin provides the group 'ajax'; there are acme. Create a package with: aiperf new PACKAGE",
        ),
        (
            "acme.row_means",
            "'{package}/plugin.py' has no function aiperf_targets that yields its targets one by one, so no line can "
            "be added. Write it so, or add the target by hand: "
            'Target("row_means", "Row means", goal="speed", devices=("cpu", "cuda"))',
        ),
    ],
)
def test_a_target_that_cannot_be_added(site, name, message):
    site.install(
        "aiperf-acme", "@hookimpl\ndef aiperf_targets():\n    return [Target('double', 'Double', 'speed', 'cpu')]\n"
    )
    site.write("aiperf_acme/there.py", "")
    before = {path for path in site.folder.rglob("*") if "__pycache__" not in path.parts}
    result = CliRunner().invoke(Shell(site.load()), ["new", "--target", name])
    expected = message.replace("{package}", str(site.folder / "aiperf_acme"))
    assert (result.exit_code, result.stderr) == (2, f"aiperf: {expected}\n")
    assert {path for path in site.folder.rglob("*") if "__pycache__" not in path.parts} == before


@pytest.mark.parametrize("arguments", [(), ("aiperf-acme", "--target", "acme.row_means")])
def test_a_package_or_a_target(arguments):
    assert new(*arguments).stderr == (
        "aiperf: Give PACKAGE for a new package, or --target NAME for a benchmark in an installed one.\n"
    )


CHOICES = {
    "cpu": (["--devices", "cpu"], ["c"]),
    "languages": (["--lang", "c,triton"], ["c", "triton"]),
    "gpu": (["--devices", "cuda", "--lang", "triton,cuda"], ["cuda", "triton"]),
}


@pytest.mark.parametrize("choice", CHOICES)
def test_devices_and_languages_of_a_target(tmp_path, choice):
    options, languages = CHOICES[choice]
    package = made_in(tmp_path)
    before = {*files_of(package)}
    done = run(package, "aiperf_core", "new", "--target", "acme.top_k", *options)
    assert done.returncode == 0, done.stderr
    src = Path("src/aiperf_acme")
    endings = {"c": ".c", "cuda": ".cu", "triton": "_triton.py"}
    added = {src / "top_k.py", *(src / f"kernels/top_k{endings[one]}" for one in languages)}
    assert {*files_of(package)} - before == added
    devices = {"cpu": "cpu", "languages": "cpu, cuda", "gpu": "cuda"}[choice]
    listed = run(package, "aiperf_core", "list", "acme.top_k").stdout.splitlines()[-1]
    assert re.fullmatch(rf"acme.top_k +speed +{devices} +Top k", listed)
    text = (package[0] / src / "top_k.py").read_text()
    assert ("cuda" in text, "cpu" in text) == ("cuda" in devices, "cpu" in devices)
    linted = run(package, "aiperf_core", "lint", "acme.top_k")
    if devices != "cuda":
        assert linted.returncode == 0, linted.stdout + linted.stderr
    assert "form.contents" not in linted.stdout
    shown = run(package, "aiperf_core", "show", "acme.top_k")
    assert (shown.returncode, shown.stderr) == (0, "")
    test_its_form_is_good(package)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--devices", "cpu", "--lang", "triton"], "--lang triton is for cuda; add it to --devices cpu."),
        (["--lang", "rust"], "--lang 'rust' is not a language of kernels; accepted: c, cuda, triton."),
        (["--devices", "tpu"], "--devices 'tpu' is not a device of the template; accepted: cpu, cuda."),
    ],
)
def test_choices_that_do_not_fit(site, options, message):
    site.install(
        "aiperf-acme", "@hookimpl\ndef aiperf_targets():\n    yield Target('double', 'Double', 'speed', 'cpu')\n"
    )
    result = CliRunner().invoke(Shell(site.load()), ["new", "--target", "acme.top_k", *options])
    assert (result.exit_code, result.stderr) == (2, f"aiperf: {message}\n")


def test_choices_are_for_a_target():
    message = "aiperf: --devices and --lang are for --target; a new package has a benchmark of both devices.\n"
    assert new("aiperf-acme", "--lang", "c").stderr == message

"""Rules of Dockerfiles."""

import json
import re
from collections.abc import Iterator

from attrs import frozen

from aiperf_ch03.manifests.rules import Mark
from aiperf_ch03.manifests.shell import installed, interleaves

_HEREDOC = re.compile(r"<<-?\s*[\"']?(\w+)[\"']?")
_APT, _PIP = ("apt", "apt-get"), ("pip", "pip3")
_DRIVER = re.compile(
    r"nvidia-driver-\S*|libnvidia-(?!container|ml-dev)\S*|libcuda1\S*|nvidia-utils-\S*|cuda-drivers\S*"
)
_REQUIREMENTS = ("-r", "--requirement")
_LISTS = re.compile(r"\brm\s+-\w*\s+/var/lib/apt/lists")
_FRAMEWORKS = ("torch", "tensorflow", "jax", "vllm", "triton", "transformers", "sglang")
# Names without a package, which tutorials spread.
_NO_PACKAGES = ("tcmalloc-minimal", "tcmalloc", "jemalloc")


@frozen
class Instruction:
    """An instruction: its keyword in capitals, its arguments in one text, and the line where it begins."""

    keyword: str
    value: str
    line: int


def instructions(text: str) -> list[Instruction]:
    """The instructions of a Dockerfile, with lines that continue and here-documents joined."""
    found: list[Instruction] = []
    lines = iter(enumerate(text.splitlines(), 1))
    for number, line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = [line.strip()]
        while parts[-1].endswith("\\"):
            parts[-1] = parts[-1][:-1]
            following = next((rest.strip() for _, rest in lines if not rest.lstrip().startswith("#")), "")
            parts.append(following)
        keyword, _, value = " ".join(parts).strip().partition(" ")
        for end in _HEREDOC.findall(value) if keyword.upper() in ("RUN", "COPY") else ():
            for _, inner in lines:
                if inner.strip() == end:
                    break
                value += f"\n{inner}"
        found.append(Instruction(keyword.upper(), value.strip(), number))
    return found


def lint(text: str) -> Iterator[Mark]:
    """The places of a Dockerfile that break a rule."""
    every = instructions(text)
    yield from _bases(every)
    yield from _copies(every)
    for one in every:
        if one.keyword == "RUN":
            yield from _run(one)
        elif one.keyword == "ENV" or one.keyword == "ARG":
            yield from _variables(one)
        elif one.keyword in ("ENTRYPOINT", "CMD"):
            if not _is_list(one.value) and not one.value.startswith("exec "):
                yield Mark("dockerfile.shell_form", one.line, f"{one.keyword} {one.value}")
            if interleaves(one.value):
                yield Mark("dockerfile.interleave", one.line, f"{one.keyword} {one.value}")


def _bases(every: list[Instruction]) -> Iterator[Mark]:
    stages: set[str] = set()
    base = None
    for one in every:
        if one.keyword != "FROM":
            continue
        words = [word for word in one.value.split() if not word.startswith("--")]
        image = words[0] if words else ""
        is_own = image.lower() in stages or image == "scratch"
        if len(words) == 3 and words[1].upper() == "AS":
            stages.add(words[2].lower())
        if not is_own and not is_pinned(image):
            yield Mark("dockerfile.base_tag", one.line, f"FROM {image}")
        base = one, image
    if base and re.search(r"\bdevel\b", base[1].rpartition(":")[2]):
        yield Mark("dockerfile.devel_base", base[0].line, f"FROM {base[1]}")


def is_pinned(image: str) -> bool:
    """Whether a name of an image has a version that is not `latest`, a digest, or a variable for it."""
    name = image.rpartition("/")[2]
    return "@sha256:" in image or "$" in image or (":" in name and not name.endswith(":latest"))


def _copies(every: list[Instruction]) -> Iterator[Mark]:
    """All code copied before packages are installed from a file, in the same stage."""
    whole: Instruction | None = None
    for one in every:
        if one.keyword == "FROM":
            whole = None
        elif one.keyword in ("COPY", "ADD") and "--from" not in one.value and one.value.split()[:1] in (["."], ["./"]):
            whole = one
        elif whole and one.keyword == "RUN" and any(_from_a_file(names) for names in installed(one.value, _PIP)):
            yield Mark("dockerfile.copy_order", whole.line, f"{whole.keyword} {whole.value}")
            whole = None


def _from_a_file(names: list[str]) -> bool:
    return any(name.startswith(_REQUIREMENTS) for name in names)


def _run(one: Instruction) -> Iterator[Mark]:
    packages = [name for names in installed(one.value, _APT) for name in names if not name.startswith("-")]
    if packages and not _LISTS.search(one.value) and "--mount=type=cache" not in one.value:
        yield Mark("dockerfile.apt_lists", one.line, f"apt-get install {' '.join(packages[:3])}")
    for name in packages:
        if _DRIVER.fullmatch(name):
            yield Mark("dockerfile.driver", one.line, f"apt-get install {name}")
        if name in _NO_PACKAGES:
            yield Mark("dockerfile.apt_name", one.line, f"apt-get install {name}")
    for arguments in installed(one.value, _PIP):
        names = [name.strip("\"'") for name in arguments]
        if "--no-cache-dir" not in one.value and "--mount=type=cache" not in one.value:
            yield Mark("dockerfile.pip_cache", one.line, f"pip install {' '.join(names[:3])}")
        constrained = any(name in ("-c", "--constraint") for name in names)
        for name in names:
            if re.split(r"[\[<>=!~]", name)[0] in _FRAMEWORKS and "==" not in name and not constrained:
                yield Mark("dockerfile.unpinned", one.line, f"pip install {name}")


def _variables(one: Instruction) -> Iterator[Mark]:
    if match := re.search(r"TORCH_CUDA_ARCH_LIST[= ]\s*[\"']?([^\"']+)", one.value):
        architectures = re.split(r"[ ;]+", match[1].strip())
        if len(architectures) == 1 and "+PTX" not in architectures[0] and "$" not in architectures[0]:
            yield Mark("dockerfile.arch_list", one.line, f"TORCH_CUDA_ARCH_LIST={architectures[0]}")


def _is_list(value: str) -> bool:
    try:
        return isinstance(json.loads(value), list)
    except ValueError:
        return False

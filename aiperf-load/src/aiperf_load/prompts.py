"""Prompts of an exact number of tokens, made from a seed."""

import importlib
import math
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from aiperf_core.errors import UsageError
from aiperf_load.arrivals import MOST
from aiperf_load.spec import LoadSpec

Counter = Callable[[str], int]


def tokens(spec: LoadSpec, number: int, length: int) -> list[int]:
    """The token ids of request `number`: the shared prefix, the number of the request, then random ids.

    The number of the request follows the shared prefix in digits to the base of the vocabulary, as far as the length
    reaches. No two prompts have another begin in common, so that a server's prefix cache has no effect.
    """
    work = spec.workload
    common = np.random.default_rng([spec.rules.seed, 2]).integers(0, work.vocabulary, work.shared_prefix)
    ids = [int(one) for one in common]
    # The same number of digits for all requests, so that they differ within these.
    digits = math.ceil(math.log(MOST, work.vocabulary))
    ids += [number // work.vocabulary**place % work.vocabulary for place in range(digits)]
    ids = ids[:length]
    rng = np.random.default_rng([spec.rules.seed, 3, number])
    return ids + [int(one) for one in rng.integers(0, work.vocabulary, length - len(ids))]


def text(ids: list[int]) -> str:
    """Ids as words, one word for each."""
    return " ".join(f"t{one}" for one in ids)


def counter(name: str | None) -> Counter | None:
    """Counter of the tokens of a text: `words`, or `module:function`, a function of a text.

    The function returns the number of tokens, or a list of tokens. Raises UsageError where there is none of that name.
    """
    if name is None:
        return None
    if name == "words":
        return lambda text: len(text.split())
    module, colon, function = name.partition(":")
    if not colon or not function:
        raise UsageError(f"{name!r} is no tokenizer; accepted are 'words' and 'module:function'.")
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise UsageError(f"cannot import the tokenizer {name!r}: {error}.") from None
    finally:
        if added:
            sys.path.remove(here)

    def count(text: str) -> int:
        result = found(text)
        return result if isinstance(result, int) else len(result)

    return count

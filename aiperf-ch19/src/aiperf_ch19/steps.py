"""The time of a decoding step by its batch, context and guesses: the one table of this chapter's simulations."""

# A step reads all weights, in which time it also computes; it reads the cache of each text; a draft model guesses.
WEIGHTS_S, TOKENS_PER_S = 0.015, 20_000
CONTEXT_S = 1.5e-7  # to read the keys and values of a token of context
DRAFT_S = 0.002  # for each guess, of all texts at once


def step_s(texts: float, context: float = 1000.0, guesses: int = 0) -> float:
    """The seconds of a step of some texts with a context of so many tokens each."""
    computed_s = texts * (1 + guesses) / TOKENS_PER_S
    return max(WEIGHTS_S, computed_s) + texts * context * CONTEXT_S + guesses * DRAFT_S


def tokens(guesses: int, accepted: float) -> float:
    """The tokens that a step adds to a text, where a guess is right with the probability `accepted`."""
    return sum(accepted**right for right in range(guesses + 1))

"""Speculative decoding: a model that reads its weights once can judge several guessed tokens as well as say one.

Workload   One answer, greedy, of a synthetic model (see `aiperf_core.models`) whose next token is planted: the same at
           every precision. A part of the answer stands in the prompt already, in shuffled pieces. A smaller model, the
           draft, has the target's next token for a part of the vocabulary, `agreement`.
Baseline   The target alone, a token a step; on a GPU, a step is one launch of a CUDA graph.
Variants   `draft_model`: the draft says `ahead` tokens, and the target judges them in one step: those before the first
           wrong one stand, and the target's own token follows them.  `prompt_lookup`: the guess is what followed the
           last token when it was there before; it costs next to nothing.
           On a GPU, a round (guesses, judgement, acceptance) is one launch of a graph.
Breaks     Agreement below some half, or a draft that is no faster. Large batches, which leave no unused arithmetic: a
           rejected token costs as much as an accepted one. `prompt_lookup` guesses only what was said before.
"""

import torch

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction
from aiperf_core.graphs import captured
from aiperf_core.models import Cache, ModelConfig, Transformer, agreeing, config, planted, successors

# On one processor of the host: short operations that two would share wait for each other.
bench = Benchmark(goal="latency", clock="wall", cache="warm", threads=1)
both, cpu, cuda = bench.on(("cpu", "cuda")), bench.on("cpu"), bench.on("cuda")

CANDIDATES = 16
PIECE = 8  # tokens of the answer that stand together in the prompt
# Seeds: of the permutation that the target has planted, by which prompts are drawn, and of the draft's mistakes.
LANGUAGE, MISTAKES = 5, 6


def model_of(sizes):
    """The target's sizes among all sizes."""
    return ModelConfig(**{name: sizes[name] for name in config("tiny").sizes})


def tolerance(bits):
    if bits == 32:
        return fp32_reduction
    why = "the stream is rounded to bfloat16 twice a layer, in up to 16 layers, and scores are sums of its products"
    return Tolerance(2e-2, reason=why)


GUESSES = {"ahead": 4, "agreement": 0.8, "copied": 0.75}


@bench.workload(
    smoke={
        **ModelConfig(layers=2, width=48, heads=3, kv_heads=1, hidden=17, vocabulary=131).sizes,
        "draft_layers": 1,
        "draft_width": 32,
        "dtype": "bf16",
        "prompt": 29,
        "answer": 19,
        **GUESSES,
    },
    cpu={
        **config("tiny").sizes,
        "layers": 8,
        "draft_layers": 1,
        "draft_width": 64,
        "dtype": "fp32",
        "prompt": 64,
        "answer": 48,
        **GUESSES,
    },
    cuda={
        **config("1b").sizes,
        "draft_layers": 2,
        "draft_width": 512,
        "dtype": "bf16",
        "prompt": 256,
        "answer": 256,
        **GUESSES,
    },
)
def inputs(vocabulary, prompt, answer, copied, device, generator):
    draw = {"device": device, "generator": generator}
    text = torch.randint(vocabulary, (prompt,), **draw)
    chain = torch.tensor(continued(language(vocabulary), int(text[-1]), answer), device=device)
    # Pieces of the answer that is to come, in any order, before the last token.
    pieces = chain[: answer - answer % PIECE].view(-1, PIECE)
    fitting = min(round(copied * len(pieces)), (prompt - 1) // PIECE)
    chosen = torch.randperm(len(pieces), **draw)[:fitting]
    text[: fitting * PIECE] = pieces[chosen].flatten()
    return {"text": text, "candidates": torch.randint(vocabulary, (CANDIDATES,), **draw)}


def language(vocabulary):
    """The token that follows each token, for all processes alike."""
    return successors(vocabulary, "cpu", torch.Generator().manual_seed(LANGUAGE))


def continued(successor, token, count):
    """The next tokens."""
    following, said = successor.tolist(), []
    for _ in range(count):
        token = following[token]
        said.append(token)
    return said


def draft_of(sizes):
    """The draft's sizes: heads as wide as the target's."""
    width, target = sizes["draft_width"], model_of(sizes)
    heads = width // target.head_width
    return ModelConfig(
        layers=sizes["draft_layers"],
        width=width,
        heads=heads,
        kv_heads=heads,
        hidden=4 * width,
        vocabulary=target.vocabulary,
    )


@bench.static
def parameters(agreement, dtype, device, generator, **sizes):
    target, draft = model_of(sizes), draft_of(sizes)
    says = language(target.vocabulary)
    guesses = agreeing(says, agreement, torch.Generator().manual_seed(MISTAKES))
    return {
        "weights": planted(target, device, dtype, generator, says.to(device)),
        "draft_weights": planted(draft, device, dtype, generator, guesses.to(device)),
    }


@bench.reference(tolerance=tolerance)
def reference(text, candidates, weights, answer, **sizes):
    model = Transformer(model_of(sizes), weights)
    # The answer is known from the permutation; the model, given all of it at once, has to say the same.
    chain = continued(model.successor, int(text[-1]), answer - 1)
    whole = torch.cat((text, torch.tensor(chain, dtype=torch.int64, device=text.device)))
    logits = model.logits(model.states(whole[None])[0, -answer:])
    scores = logits[:, candidates]
    return {"tokens": logits.argmax(-1), "scores": scores.to(torch.promote_types(scores.dtype, torch.float32))}


@bench.cost
def cost(bits, prompt, answer, **sizes):
    model = model_of(sizes)
    fed = prompt + answer - 1
    # Guesses that are all right would need the target's weights once.
    return Cost(
        bytes_read=8 * prompt + bits // 8 * (model.parameters - model.vocabulary * model.width),
        bytes_written=(8 + 4 * CANDIDATES) * answer,
        flops=model.flops(fed, fed * (fed + 1) // 2, answer),
        precision="bf16" if bits == 16 else "fp32",
        tokens=answer,
    )


# A prompt and an answer of one token; one guess; more guesses than are wanted; a draft that is never right, or always.
bench.awkward(
    {"prompt": 1, "answer": 1},
    {"answer": 3, "ahead": 7, "dtype": "fp32"},
    {"ahead": 1, "agreement": 0.0, "copied": 0.0},
    {"agreement": 1.0, "prompt": 2, "answer": 23},
)
cpu.reach(of="speedup", at_least=1.3)
cuda.reach(of="speedup", at_least=2.0, implementation="draft_model")


class Model:
    """A model with a cache whose places are a tensor, so that a graph has them all."""

    def __init__(self, sizes, weights, room):
        self.model, head = Transformer(sizes, weights), weights["head"]
        self.cache = Cache(sizes, 1, room, head.device, head.dtype)

    def states(self, tokens, places):
        """The input of the head for some tokens, [count, width]; keys and values go to their places in the cache."""
        return self.model.states_at(tokens[None], places[None], self.cache)[0]


@both.baseline(kind="reasonable")
class Greedy:
    """Rounds that each add tokens to a text on the device; `guess` says which tokens to judge."""

    def prepare(self, text, candidates, weights, answer, ahead, **sizes):
        self.device, self.begin, self.answer = weights["head"].device, len(text), answer
        self.ahead = self.guesses(ahead)
        # A last round may judge more than is wanted.
        self.room = len(text) + answer + self.ahead + 1
        self.target = Model(model_of(sizes), weights, self.room)
        self.candidates = candidates
        wide = torch.promote_types(weights["head"].dtype, torch.float32)
        self.text = torch.zeros(self.room, dtype=torch.int64, device=self.device)
        self.scores = torch.zeros(self.room, CANDIDATES, dtype=wide, device=self.device)
        # The place of the last token, which no cache has yet.
        self.last = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.after = torch.arange(self.ahead + 1, device=self.device)
        self.ready()

    def guesses(self, ahead):
        """The number of guesses of a round."""
        return 0

    def ready(self):
        """Called when all memory is there."""
        self.next = self.round
        if self.device.type == "cuda":
            with torch.inference_mode():
                self.next = captured(self.round).replay

    @torch.inference_mode()
    def run(self, text):
        begin = self.begin
        self.text[:begin] = text
        self.last.fill_(begin - 1)
        if begin > 1:
            self.read(text[:-1], torch.arange(begin - 1, device=self.device))
        done, end = begin, begin + self.answer
        while done < end:
            self.next()
            # Without guesses each round says one token: the host need not read `last`.
            done = int(self.last) + 1 if self.ahead else done + 1
        return {"tokens": self.text[begin:end], "scores": self.scores[begin:end]}

    def read(self, tokens, places):
        """Take the prompt but its last token into the cache."""
        self.target.states(tokens, places)

    def guess(self):
        """The tokens that may follow the last token."""
        return self.text[:0]

    def round(self):
        guessed = self.guess()
        places = self.last + self.after
        logits = self.target.model.logits(self.target.states(torch.cat((self.text[self.last], guessed)), places))
        said = logits.argmax(-1)
        # Up to the first wrong guess, and the target's token in its place; the next round overwrites what follows.
        right = (guessed == said[:-1]).long().cumprod(0).sum()
        self.text.index_copy_(0, places + 1, said)
        self.scores.index_copy_(0, places + 1, logits[:, self.candidates].to(self.scores.dtype))
        self.last += right + 1


@both.variant(
    adds="draft model",
    why="the target reads its weights once for all guesses of a round, and a guess reads only the draft's",
)
class DraftModel(Greedy):
    def prepare(self, text, candidates, weights, answer, ahead, **sizes):
        room = len(text) + answer + ahead + 1
        self.draft = Model(draft_of(sizes), sizes["draft_weights"], room)
        super().prepare(text, candidates, weights, answer, ahead, **sizes)

    def guesses(self, ahead):
        return ahead

    def read(self, tokens, places):
        super().read(tokens, places)
        self.draft.states(tokens, places)

    def guess(self):
        # After a round without mistakes the draft has not seen the last token but one; seeing it again does no harm.
        places = (self.last + self.after[:2] - 1).clamp(min=0)
        tokens = self.text[places]
        said = []
        for ahead in range(self.ahead):
            states = self.draft.states(tokens, places)
            tokens = self.draft.model.logits(states[-1:]).argmax(-1)
            places = self.last + ahead + 1
            said.append(tokens)
        return torch.cat(said)


@both.variant(
    adds="prompt lookup",
    why="the target reads its weights once for all guesses of a round, and guesses are looked up in the text",
)
class PromptLookup(Greedy):
    def guesses(self, ahead):
        return ahead

    def guess(self):
        # Where the last token was before, the latest of these places; place 0 if it was nowhere. Behind the last token
        # there is nothing to read.
        every = self.target.cache.place
        found = ((self.text == self.text[self.last]) & (every < self.last)) * every
        return self.text[torch.minimum(found.max() + self.after[1:], self.last)]

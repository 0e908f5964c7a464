"""Speculative decoding: a model that reads its weights once can judge several guessed tokens as well as say one.

Question    A step of a single answer reads all weights for one token. What do guessed tokens in the same step gain?
Numbers     On a GPU, 256 tokens of a model of 2.1 GB (1b, bfloat16): 256 steps read 532 GB. A draft of 2.4 % of these
            bytes has the target's next token for `agreement`, 0.8, of the vocabulary. A round of `ahead`, 4, guesses
            then adds (1 - 0.8^5) / (1 - 0.8) = 3.4 tokens: 76 rounds. On a CPU, 48 tokens: 14 rounds, and a draft of
            one layer for eight of the target's.
Prediction  At most, as heads and judging five tokens cost more than one: `draft_model` 256 / (76 * (1 + 4 * 0.024)) =
            3.1x by bytes, on a CPU 48 / (14 * (1 + 4 / 8)) = 2.3x by layers. `adaptive` finds 8 guesses better, 59
            rounds: 3.6x; on a CPU 5, 2.3x. `prompt_lookup` guesses for nothing what the prompt has, three quarters in
            pieces of 8: two rounds a piece and eight where there is none, 112 rounds and 2.3x; on a CPU 24 rounds, 2x.
Limits      Agreement below 0.1 on a GPU, where 3.1x becomes 1x; a draft of a quarter of the target's step needs 0.5.
            Large batches, whose steps are not bound by weights: a rejected token costs as much as an accepted one, and
            a batch ends with its slowest text.
"""

import time
from functools import partial

import torch

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction
from aiperf_core.graphs import captured
from aiperf_core.models import Cache, ModelConfig, Transformer, agreeing, config, planted, successors

# On one processor of the host: short operations that two would share wait for each other.
bench = Benchmark(goal="latency", clock="wall", cache="warm", threads=1)
both, cpu, cuda = bench.on(("cpu", "cuda")), bench.on("cpu"), bench.on("cuda")

CANDIDATES = 16
STARTS = 64  # last tokens of prompts that are tried, for an answer that takes as many rounds as theory says
MEASURED_TIMES = 5
# Weights beyond this size stay in no cache from one step to the next.
CACHED_BYTES = 1 << 29
PIECE = 8  # tokens of the answer that stand together in the prompt
# Seeds: of the permutation that the target has planted, by which prompts are drawn, of the draft's mistakes, and of the
# order of pieces.
LANGUAGE, MISTAKES, PIECES = 5, 6, 7


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
        **ModelConfig(layers=2, width=48, heads=3, kv_heads=1, hidden=17, vocabulary=1009).sizes,
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
def inputs(vocabulary, prompt, answer, ahead, agreement, copied, device, generator):
    draw = {"device": device, "generator": generator}
    text = torch.randint(vocabulary, (prompt,), **draw)
    text[-1] = fairest(torch.randint(vocabulary, (STARTS,), **draw).tolist(), vocabulary, answer, ahead, agreement)
    chain = torch.tensor(continued(language(vocabulary), int(text[-1]), answer), device=device)
    # Pieces of the answer that is to come, in any order, before the last token.
    pieces = chain[: answer - answer % PIECE].view(-1, PIECE)
    fitting = min(round(copied * len(pieces)), (prompt - 1) // PIECE)
    chosen = torch.randperm(len(pieces), generator=torch.Generator().manual_seed(PIECES))[:fitting].to(device)
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


def mistaken(says, agreement):
    """The token that the draft says after each token."""
    return agreeing(says, agreement, torch.Generator().manual_seed(MISTAKES))


def expected_rounds(answer, ahead, agreement):
    """The rounds of an answer, if each guess is right with this probability."""
    return answer / sum(agreement**guess for guess in range(ahead + 1))


def fairest(starts, vocabulary, answer, ahead, agreement):
    """The first of these last tokens of a prompt whose answer takes as many rounds as expected, or about as many.

    All draws are then the same work.
    """
    says = language(vocabulary)
    right = (mistaken(says, agreement) == says).tolist()
    following, expected = says.tolist(), round(expected_rounds(answer, ahead, agreement))

    def distance(token):
        done = rounds = 0
        while done < answer:
            for _ in range(ahead):
                if not right[token]:
                    break
                token, done = following[token], done + 1
            token, done, rounds = following[token], done + 1, rounds + 1
        return abs(rounds - expected)

    return min(starts, key=distance)


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
    guesses = mistaken(says, agreement)
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
    # Guesses that are all right would need the target's weights once.
    return cost_of(1, bits, prompt, answer, sizes)


def greedy_cost(bits, prompt, answer, **sizes):
    return cost_of(answer, bits, prompt, answer, sizes)


def guessing_cost(bits, prompt, answer, ahead, **sizes):
    """No round adds more than all guesses and the target's own token."""
    return cost_of(-(-answer // (int(ahead) + 1)), bits, prompt, answer, sizes)


def adaptive_cost(bits, prompt, answer, ahead, **sizes):
    return guessing_cost(bits, prompt, answer, 2 * ahead, **sizes)


def cost_of(passes, bits, prompt, answer, sizes):
    """The least work of an answer for which the target's weights are read this number of times."""
    model = model_of(sizes)
    fed = prompt + answer - 1
    weights = bits // 8 * (model.parameters - model.vocabulary * model.width)
    return Cost(
        bytes_read=8 * prompt + (passes if weights > CACHED_BYTES else 1) * weights,
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
# 2.3x by layers, on a CPU with three fifths for heads and for products of five tokens, which take longer than of one.
cpu.reach(of="speedup", at_least=1.3)
# 3.1x by bytes; a third for the kernels of the draft, which has as many a layer as the target.
cuda.reach(of="speedup", at_least=2.0, implementation="draft_model")


class Model:
    """A model with a cache whose places are a tensor, so that a graph has them all."""

    def __init__(self, sizes, weights, room):
        self.model, head = Transformer(sizes, weights), weights["head"]
        self.cache = Cache(sizes, 1, room, head.device, head.dtype)

    def states(self, tokens, places):
        """The input of the head for some tokens, [count, width]; keys and values go to their places in the cache."""
        return self.model.states_at(tokens[None], places[None], self.cache)[0]


@both.baseline(kind="reasonable", cost=greedy_cost)
class Greedy:
    """Rounds that each add tokens to a text on the device; `guess` says which tokens to judge."""

    def prepare(self, text, candidates, weights, answer, ahead, **sizes):
        self.device, self.begin, self.answer = weights["head"].device, len(text), answer
        self.counts = self.guesses(ahead)
        # A last round may judge more than is wanted.
        self.room = len(text) + answer + max(self.counts) + 1
        self.target = Model(model_of(sizes), weights, self.room)
        self.candidates = candidates
        wide = torch.promote_types(weights["head"].dtype, torch.float32)
        self.text = torch.zeros(self.room, dtype=torch.int64, device=self.device)
        self.scores = torch.zeros(self.room, CANDIDATES, dtype=wide, device=self.device)
        # The place of the last token, which no cache has yet.
        self.last = torch.zeros(1, dtype=torch.int64, device=self.device)
        self.after = torch.arange(max(self.counts) + 1, device=self.device)
        self.ready(sizes)

    def guesses(self, ahead):
        """The numbers of guesses that a round may have."""
        return (0,)

    @torch.inference_mode()
    def ready(self, sizes):
        """Called when the target's memory is there."""
        self.rounds = {count: self.replayed(partial(self.round, count)) for count in self.counts}

    def replayed(self, call):
        """The call, on a GPU as the launch of its graph."""
        return captured(call).replay if self.device.type == "cuda" else call

    @torch.inference_mode()
    def run(self, text):
        begin = self.begin
        self.text[:begin] = text
        self.last.fill_(begin - 1)
        if begin > 1:
            self.read(text[:-1], torch.arange(begin - 1, device=self.device))
        done, end = begin, begin + self.answer
        while done < end:
            count, before = self.choose(), done
            self.rounds[count]()
            # Without guesses each round says one token: the host need not read `last`.
            done = int(self.last) + 1 if count else done + 1
            self.learn(count, done - before - 1)
        return {"tokens": self.text[begin:end], "scores": self.scores[begin:end]}

    def read(self, tokens, places):
        """Take the prompt but its last token into the cache."""
        self.target.states(tokens, places)

    def choose(self):
        """The number of guesses of the next round."""
        return self.counts[0]

    def learn(self, count, right):
        """Called after a round with its number of guesses, and how many of them were right."""

    def guess(self, count):
        """The tokens that may follow the last token."""
        return self.text[:0]

    def round(self, count):
        guessed = self.guess(count)
        places = self.last + self.after[: count + 1]
        logits = self.target.model.logits(self.target.states(torch.cat((self.text[self.last], guessed)), places))
        said = logits.argmax(-1)
        # Up to the first wrong guess, and the target's token in its place; the next round overwrites what follows.
        right = (guessed == said[:-1]).long().cumprod(0).sum()
        self.text.index_copy_(0, places + 1, said)
        self.scores.index_copy_(0, places + 1, logits[:, self.candidates].to(self.scores.dtype))
        self.last += right + 1


@both.variant(
    adds="draft model",
    cost=guessing_cost,
    why="the target reads its weights once for all guesses of a round, and a guess reads only the draft's",
)
class DraftModel(Greedy):
    def guesses(self, ahead):
        return (int(ahead),)

    def ready(self, sizes):
        self.draft = Model(draft_of(sizes), sizes["draft_weights"], self.room)
        super().ready(sizes)

    def read(self, tokens, places):
        super().read(tokens, places)
        self.draft.states(tokens, places)

    def guess(self, count):
        # After a round without mistakes the draft has not seen the last token but one; seeing it again does no harm.
        places = (self.last + self.after[:2] - 1).clamp(min=0)
        tokens = self.text[places]
        said = []
        for ahead in range(count):
            states = self.draft.states(tokens, places)
            tokens = self.draft.model.logits(states[-1:]).argmax(-1)
            places = self.last + ahead + 1
            said.append(tokens)
        return torch.cat(said)


def best_guesses(agreement, most, round_s):
    """The number of guesses, from 1 to `most`, with the most tokens a second, if each is right with this probability.

    A round of k guesses adds 1 + a + ... + a^k tokens, and takes round_s(k).
    """

    def tokens_per_s(count):
        return sum(agreement**power for power in range(count + 1)) / round_s(count)

    return max(range(1, most + 1), key=tokens_per_s)


@both.variant(
    builds_on="draft_model",
    adds="adaptive length",
    cost=adaptive_cost,
    why="no more is guessed than what is likely enough to be right for the time that it takes, up to twice `ahead`",
    teaches="a fixed number that suits the agreement is as good: see `--set agreement=0.3`, and 0.95",
)
class Adaptive(DraftModel):
    def guesses(self, ahead):
        return range(1, 2 * int(ahead) + 1)

    def ready(self, sizes):
        super().ready(sizes)
        few, many = self.counts[0], self.counts[-1]
        few_s, many_s = self.seconds(few), self.seconds(many)
        self.guess_s = (many_s - few_s) / (many - few)
        self.least_s = few_s - self.guess_s * few

    @torch.inference_mode()
    def seconds(self, count):
        """The shortest time of several rounds; the first is not counted."""
        times = []
        for _ in range(1 + MEASURED_TIMES):
            start = time.perf_counter()
            self.last.zero_()
            self.rounds[count]()
            int(self.last)  # waits for the device
            times.append(time.perf_counter() - start)
        return min(times[1:])

    def run(self, text):
        self.right, self.wrong = 2.0, 1.0  # as if three guesses had been judged before
        return super().run(text)

    def choose(self):
        agreement = self.right / (self.right + self.wrong)
        return best_guesses(agreement, self.counts[-1], lambda count: self.least_s + count * self.guess_s)

    def learn(self, count, right):
        self.right += right
        self.wrong += right < count


@both.variant(
    adds="prompt lookup",
    cost=guessing_cost,
    why="the target reads its weights once for all guesses of a round, and guesses are looked up in the text",
)
class PromptLookup(Greedy):
    def guesses(self, ahead):
        return (int(ahead),)

    def guess(self, count):
        # Where the last token was before, the latest of these places; place 0 if it was nowhere. Behind the last token
        # there is nothing to read.
        every = self.target.cache.place
        before = ((self.text == self.text[self.last]) & (every < self.last)) * every
        return self.text[torch.minimum(before.max() + self.after[1 : count + 1], self.last)]

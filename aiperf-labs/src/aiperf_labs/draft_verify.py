"""A ladder of speculation for a batch: a draft guesses, the target judges, and the number of guesses follows success.

Workload   Greedy answers of a batch of texts by a synthetic model (see `aiperf_core.models`), whose next token is
           planted: the same at every precision. A smaller model, the draft, has the target's next token for a part of
           the vocabulary, `agreement`. Each has a cache of its own, and each text advances by itself.
Baseline   The target alone: a token of each text a step, in a cache that was allocated before.
Variants   A ladder. `draft_model`: the draft says `ahead` tokens, the target judges them in one step, and both go on
           behind the first wrong guess: what follows in the caches is overwritten.  `adaptive`: the number of guesses
           of a round, up to `ahead`, is the best for the share of guesses that were right so far and the times of
           draft and target that were measured before.  `graphs` (cuda): a round is one launch, of a graph for its
           number of guesses. Left out of the whole: `without_adaptive` (cuda); without the last one it is the step
           below.
Breaks     Large batches: judging all guesses then takes as much longer as there are guesses, and rejected ones are
           lost. A batch ends with its slowest text. A draft that takes longer than its share of the target's time.
"""

import time

import torch

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction
from aiperf_core.graphs import captured
from aiperf_core.models import Cache, ModelConfig, Transformer, agreeing, config, planted, successors

# On one processor of the host: short operations that two would share wait for each other.
bench = Benchmark(goal="latency", clock="wall", cache="warm", threads=1, prepare_timeout_s=600)
both, cpu, cuda = bench.on(("cpu", "cuda")), bench.on("cpu"), bench.on("cuda", requires="sm_80")

CANDIDATES = 16
# Seeds: of the permutation that the target has planted, and of the draft's mistakes.
LANGUAGE, MISTAKES = 5, 6
SPAN = 64  # the places of a cache are a multiple of this, so that attention's kernels are aligned
MEASURED_TIMES = 5


def model_of(sizes):
    """The target's sizes among all sizes."""
    return ModelConfig(**{name: sizes[name] for name in config("tiny").sizes})


def tolerance(bits):
    if bits == 32:
        return fp32_reduction
    why = "the stream is rounded to bfloat16 twice a layer, in up to 16 layers, and scores are sums of its products"
    return Tolerance(2e-2, reason=why)


@bench.workload(
    smoke={
        **ModelConfig(layers=2, width=48, heads=3, kv_heads=1, hidden=17, vocabulary=131).sizes,
        "draft_layers": 1,
        "draft_width": 32,
        "dtype": "bf16",
        "batch": 2,
        "prompt": 7,
        "answer": 17,
        "ahead": 4,
        "agreement": 0.7,
    },
    cpu={
        **config("tiny").sizes,
        "layers": 8,
        "draft_layers": 1,
        "draft_width": 64,
        "dtype": "fp32",
        "batch": 1,
        "prompt": 32,
        "answer": 48,
        "ahead": 8,
        "agreement": 0.7,
    },
    cuda={
        **config("1b").sizes,
        "draft_layers": 2,
        "draft_width": 512,
        "dtype": "bf16",
        "batch": 1,
        "prompt": 256,
        "answer": 256,
        "ahead": 8,
        "agreement": 0.7,
    },
)
def inputs(batch, prompt, vocabulary, device, generator):
    draw = {"device": device, "generator": generator}
    return {
        "text": torch.randint(vocabulary, (batch, prompt), **draw),
        "candidates": torch.randint(vocabulary, (CANDIDATES,), **draw),
    }


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
    says = successors(target.vocabulary, "cpu", torch.Generator().manual_seed(LANGUAGE))
    guesses = agreeing(says, agreement, torch.Generator().manual_seed(MISTAKES))
    return {
        "weights": planted(target, device, dtype, generator, says.to(device)),
        "draft_weights": planted(draft, device, dtype, generator, guesses.to(device)),
    }


@bench.reference(tolerance=tolerance)
def reference(text, candidates, weights, answer, **sizes):
    model = Transformer(model_of(sizes), weights)
    # The answer is known from the permutation; the model, given all of it at once, has to say the same.
    whole = [text]
    for _ in range(answer - 1):
        whole.append(model.successor[whole[-1][:, -1:]])
    logits = model.logits(model.states(torch.cat(whole, 1))[:, -answer:])
    scores = logits[..., candidates]
    return {"tokens": logits.argmax(-1), "scores": scores.to(torch.promote_types(scores.dtype, torch.float32))}


@bench.cost
def cost(bits, batch, prompt, answer, **sizes):
    model = model_of(sizes)
    fed = prompt + answer - 1
    # Guesses that are all right would need the target's weights once.
    return Cost(
        bytes_read=8 * batch * prompt + bits // 8 * (model.parameters - model.vocabulary * model.width),
        bytes_written=(8 + 4 * CANDIDATES) * batch * answer,
        flops=batch * model.flops(fed, fed * (fed + 1) // 2, answer),
        precision="bf16" if bits == 16 else "fp32",
        tokens=batch * answer,
    )


# A prompt and an answer of one token; more guesses than are wanted; a draft that is never right, or always.
bench.awkward(
    {"prompt": 1, "answer": 1, "batch": 1},
    {"answer": 3, "ahead": 7, "dtype": "fp32"},
    {"ahead": 1, "agreement": 0.0, "batch": 3},
    {"agreement": 1.0, "prompt": 2, "answer": 13, "batch": 5},
)
cpu.reach(of="speedup", at_least=1.3)
cuda.reach(of="speedup", at_least=2.5, implementation="graphs")


class Model:
    """A model with a cache in which each text has places of its own."""

    def __init__(self, sizes, weights, batch, room):
        self.model, head = Transformer(sizes, weights), weights["head"]
        self.cache = Cache(sizes, batch, room, head.device, head.dtype)

    def states(self, tokens, places):
        """The input of the head for some tokens of each text, [batch, count, width], at places [batch, count]."""
        return self.model.states_at(tokens, places, self.cache)


@both.baseline(kind="reasonable")
class Greedy:
    """Rounds that add tokens to each text. A round judges a number of guesses, here none."""

    def prepare(self, text, candidates, weights, answer, ahead, **sizes):
        batch, self.begin = text.shape
        self.device, self.answer, self.ahead = text.device, answer, ahead
        self.room = self.room_for(self.begin, answer, ahead)
        self.target = Model(model_of(sizes), weights, batch, self.room)
        self.candidates = candidates
        wide = torch.promote_types(weights["head"].dtype, torch.float32)
        self.text = torch.zeros(batch, self.room, dtype=torch.int64, device=self.device)
        self.scores = torch.zeros(batch, self.room, CANDIDATES, dtype=wide, device=self.device)
        # The place of each text's last token, which no cache has yet.
        self.last = torch.zeros(batch, 1, dtype=torch.int64, device=self.device)
        self.after = torch.arange(ahead + 1, device=self.device)

    @staticmethod
    def room_for(prompt, answer, ahead):
        # A text that has all its tokens goes on until the others have theirs, at the end of its room.
        return -(-(prompt + answer + 2 * ahead + 2) // SPAN) * SPAN

    @torch.inference_mode()
    def run(self, text):
        begin, end = self.begin, self.begin + self.answer
        self.text[:, :begin] = text
        self.last.fill_(begin - 1)
        if begin > 1:
            self.read(text[:, :-1], torch.arange(begin - 1, device=self.device).expand(len(text), -1))
        self.answer_all(end - 1)
        return {"tokens": self.text[:, begin:end], "scores": self.scores[:, begin:end]}

    def read(self, tokens, places):
        """Take the prompts but their last tokens into the cache."""
        self.target.states(tokens, places)

    def answer_all(self, goal):
        """Rounds until the last token of each text has that place."""
        for _ in range(self.answer):
            self.round(0)

    def guess(self, count):
        """Tokens that may follow the last one of each text."""
        return self.text[:, :0]

    def round(self, guesses):
        after = self.after[: guesses + 1]
        # A text that has its tokens stays where it can harm nothing.
        self.last.clamp_(max=self.room - self.ahead - 2)
        tokens = torch.cat((self.text.gather(1, self.last), self.guess(guesses)), 1)
        logits = self.target.model.logits(self.target.states(tokens, self.last + after))
        said = logits.argmax(-1)
        # Up to the first wrong guess, and the target's token in its place; the next round overwrites what follows.
        right = (tokens[:, 1:] == said[:, :-1]).long().cumprod(1).sum(1, keepdim=True)
        self.text.scatter_(1, self.last + 1 + after, said)
        self.scores[self.target.cache.row[:, None], self.last + 1 + after] = logits[..., self.candidates].to(
            self.scores.dtype
        )
        self.last += right + 1


@both.variant(
    adds="draft model",
    why="the target reads its weights once for all guesses of a round, and a guess reads only the draft's",
)
class DraftModel(Greedy):
    def prepare(self, text, candidates, weights, answer, ahead, **sizes):
        super().prepare(text, candidates, weights, answer, ahead, **sizes)
        self.draft = Model(draft_of(sizes), sizes["draft_weights"], len(text), self.room)
        with torch.inference_mode():
            self.ready()

    def ready(self):
        """Called when all memory is there."""

    def read(self, tokens, places):
        super().read(tokens, places)
        self.draft.states(tokens, places)

    def guess(self, count):
        # After a round without mistakes the draft has not seen the last token but one; seeing it again does no harm.
        places = (self.last + self.after[:2] - 1).clamp(min=0)
        tokens = self.text.gather(1, places)
        said = []
        for ahead in range(count):
            tokens = self.draft.model.logits(self.draft.states(tokens, places)[:, -1:]).argmax(-1)
            places = self.last + ahead + 1
            said.append(tokens)
        return torch.cat(said, 1)

    def answer_all(self, goal):
        lasts = self.last[:, 0].tolist()
        while min(lasts) < goal:
            guesses = self.choose()
            self.advance(guesses)
            before, lasts = lasts, self.last[:, 0].tolist()
            self.learn(guesses, [new - old - 1 for old, new in zip(before, lasts, strict=True) if old < goal])

    def choose(self):
        """The number of guesses of the next round."""
        return self.ahead

    def advance(self, guesses):
        self.round(guesses)

    def learn(self, guesses, right):
        """How many guesses were right, of each text that is not complete."""


def best_guesses(agreement, ahead, draft_s, judge_s):
    """The number of guesses with the most tokens a second, if each is right with this probability.

    A round of k guesses adds 1 + a + ... + a^k tokens, and takes k draft_s + judge_s(k).
    """

    def tokens_per_s(count):
        return sum(agreement**power for power in range(count + 1)) / (count * draft_s + judge_s(count))

    return max(range(1, ahead + 1), key=tokens_per_s)


@both.variant(
    builds_on="draft_model",
    adds="adaptive length",
    why="no more is guessed than what is likely enough to be right for the time that it takes",
)
class Adaptive(DraftModel):
    def ready(self):
        most = self.ahead
        self.last.zero_()
        few_s, many_s = (self.seconds(lambda count=count: self.judge(count)) for count in (1, most))
        self.draft_s = self.seconds(lambda: self.guess(most)) / most
        self.judge_s = lambda count: few_s + (many_s - few_s) * (count - 1) / max(1, most - 1)

    def judge(self, count):
        places = self.last + self.after[: count + 1]
        self.target.model.logits(self.target.states(self.text.gather(1, places), places))

    def seconds(self, call):
        """The shortest time of several calls; the first is not counted."""
        times = []
        for _ in range(1 + MEASURED_TIMES):
            start = time.perf_counter()
            call()
            if self.device.type == "cuda":
                torch.cuda.synchronize()
            times.append(time.perf_counter() - start)
        return min(times[1:])

    def answer_all(self, goal):
        self.right, self.wrong = 2.0, 1.0  # as if three guesses had been judged before
        super().answer_all(goal)

    def choose(self):
        return best_guesses(self.right / (self.right + self.wrong), self.ahead, self.draft_s, self.judge_s)

    def learn(self, guesses, right):
        self.right += sum(right)
        self.wrong += sum(one < guesses for one in right)


@cuda.variant(builds_on="adaptive", adds="cuda graphs", why="a round is one launch, whatever its number of guesses")
class Graphs(Adaptive):
    def ready(self):
        self.graphs = graphs_of(self)
        super().ready()

    def seconds(self, call):
        return super().seconds(captured(call).replay)

    def advance(self, guesses):
        self.graphs[guesses].replay()


def graphs_of(implementation):
    """A graph of a round for each number of guesses."""
    return {count: captured(implementation.round, count) for count in range(1, implementation.ahead + 1)}


@cuda.variant(adds=("draft model", "cuda graphs"), why="the whole ladder, less the adaptive length")
class WithoutAdaptive(DraftModel):
    def ready(self):
        self.graph = captured(self.round, self.ahead)

    def advance(self, guesses):
        self.graph.replay()

"""Continuous batching: a slot of the batch is filled again as soon as its request has ended.

Question    How many steps of a batch are spent on slots that wait for the longest answer?
Numbers     On a CPU, 24 requests want 1 to 48 tokens, 314 in all, most of them few: lognormal. Four slots take at least
            (314 - 24) / 4 = 73 steps, since the pass over a prompt says the first token. Batches in the order of
            arrival last as long as the longest answer of each: 147 steps, half of whose slots are idle. On a GPU (48
            requests, 1,466 tokens, 16 slots, the weights of 1b read in each step) 296 steps; 127 is the longest answer.
Prediction  `continuous` takes 81 steps, on a GPU 156, but admits requests 20 times in place of 6, 29 in place of 3. By
            passes (147 + 6) / (81 + 20) = 1.5x, on a GPU 1.6x; more as far as a pass over few prompts is shorter than a
            step. `--size trace` takes 3,819 and 1,233 steps. `graphs` leaves the steps, and one launch of each.
Limits      Answers of equal length: nobody waits. Prompts that are long beside the answers: each is processed alone,
            while the others wait. What is left between `continuous` and `longest_first` is the end of the queue.
"""

import torch

from aiperf_core import Benchmark, Cost, Tolerance, fp32_reduction
from aiperf_core.graphs import captured
from aiperf_core.models import Cache, ModelConfig, Transformer, config, planted

# On one processor of the host: short operations that two would share wait for each other.
bench = Benchmark(goal="throughput", clock="wall", cache="warm", threads=1)
both, cuda = bench.on(("cpu", "cuda")), bench.on("cuda", requires="sm_80")

CANDIDATES = 16
SPREAD = 0.9  # the standard deviation of the logarithm of wanted numbers
SPAN = 64  # keys that attention looks at are a multiple of this, so that its kernels are aligned
GRAPHS = 4
ORDER = 19  # the seed of the order of requests: of 200, one whose steps are within 5 % of the mean at all presets
# Weights beyond this size stay in no cache from one step to the next.
CACHED_BYTES = 1 << 29


def model_of(sizes):
    """The model's sizes among all sizes."""
    return ModelConfig(**{name: sizes[name] for name in config("tiny").sizes})


def tolerance(bits):
    if bits == 32:
        return fp32_reduction
    why = "the stream is rounded to bfloat16 twice a layer, in up to 16 layers, and scores are sums of its products"
    return Tolerance(2e-2, reason=why)


@bench.workload(
    smoke={
        **ModelConfig(layers=1, width=24, heads=3, kv_heads=1, hidden=17, vocabulary=67).sizes,
        "dtype": "bf16",
        "requests": 13,
        "slots": 3,
        "shortest": 1,
        "longest": 11,
        "mean_wanted": 5,
        "most_wanted": 12,
    },
    cpu={
        **config("tiny").sizes,
        "dtype": "fp32",
        "requests": 24,
        "slots": 4,
        "shortest": 4,
        "longest": 24,
        "mean_wanted": 14,
        "most_wanted": 48,
    },
    cuda={
        **config("1b").sizes,
        "dtype": "bf16",
        "requests": 48,
        "slots": 16,
        "shortest": 64,
        "longest": 256,
        "mean_wanted": 32,
        "most_wanted": 128,
    },
    trace={
        **config("1b").sizes,
        "dtype": "bf16",
        "requests": 256,
        "slots": 32,
        "shortest": 64,
        "longest": 512,
        "mean_wanted": 128,
        "most_wanted": 512,
    },
)
def inputs(requests, shortest, longest, mean_wanted, most_wanted, vocabulary, device, generator):
    draw = {"device": device, "generator": generator}

    # It decides the steps: one for all draws, which are then the same work.
    order = torch.Generator().manual_seed(ORDER)

    def shuffled(values):
        return values[torch.randperm(requests, generator=order)].to(device)

    return {
        "tokens": torch.randint(vocabulary, (requests, longest), **draw),
        "length": shuffled(prompts(requests, shortest, longest)),
        "wanted": shuffled(answers(requests, mean_wanted, most_wanted)),
        "candidates": torch.randint(vocabulary, (requests, CANDIDATES), **draw),
    }


def prompts(requests, shortest, longest):
    """The lengths of all prompts, evenly from the shortest to the longest."""
    return torch.linspace(shortest, longest, requests, dtype=torch.float64).round().long()


def answers(requests, mean, most):
    """The numbers of tokens that all requests want: the quantiles of a lognormal distribution of this mean."""
    level = (torch.arange(requests, dtype=torch.float64) + 0.5) / requests
    normal = torch.special.ndtri(level)
    return (mean * torch.exp(SPREAD * normal - SPREAD**2 / 2)).round().long().clamp(1, most)


@bench.static
def parameters(dtype, device, generator, **sizes):
    model = model_of(sizes)
    return {"weights": planted(model, device, dtype, generator)}


@bench.reference(tolerance=tolerance)
def reference(tokens, length, wanted, candidates, weights, most_wanted, **sizes):
    model = Transformer(model_of(sizes), weights)
    out = torch.full((len(tokens), most_wanted), -1, dtype=torch.int64, device=tokens.device)
    scores = []
    for row, (prompt, long, count) in enumerate(zip(tokens, length.tolist(), wanted.tolist(), strict=True)):
        # The answer is known from the permutation; the model, given all of it at once, has to say the same.
        text = [prompt[:long]]
        for _ in range(count - 1):
            text.append(model.successor[text[-1][-1:]])
        logits = model.logits(model.states(torch.cat(text)[None])[0, long - 1 :])
        out[row, :count] = logits.argmax(-1)
        scores.append(logits[-1, candidates[row]])
    scored = torch.stack(scores)
    return {"tokens": out, "scores": scored.to(torch.promote_types(scored.dtype, torch.float32))}


@bench.cost
def cost(bits, requests, slots, shortest, longest, mean_wanted, most_wanted, **sizes):
    model = model_of(sizes)
    length, wanted = prompts(requests, shortest, longest), answers(requests, mean_wanted, most_wanted)
    # The last token of an answer is not fed back.
    fed, said = int((length + wanted).sum()) - requests, int(wanted.sum())
    # Any order of prompts has at least this many places to attend to: the short prompts with the long answers.
    whole = length + wanted.flip(0) - 1
    steps = max(-(-said // slots), int(wanted.max()))
    weights = (model.parameters - model.vocabulary * model.width) * bits // 8
    return Cost(
        bytes_read=8 * int(length.sum()) + (steps * weights if weights > CACHED_BYTES else 0),
        bytes_written=8 * requests * most_wanted + 4 * requests * CANDIDATES,
        flops=model.flops(fed, int((whole * (whole + 1) / 2).sum()), said),
        precision="bf16" if bits == 16 else "fp32",
        tokens=said,
    )


# One request; as many slots as requests, and more; one slot; answers of one token; float32.
bench.awkward(
    {"requests": 1},
    {"requests": 7, "slots": 7, "shortest": 5, "longest": 5},
    {"requests": 3, "slots": 8, "dtype": "fp32"},
    {"requests": 5, "slots": 1, "layers": 2},
    {"requests": 9, "mean_wanted": 1, "most_wanted": 1},
)
# (81 + 20) / (147 + 6) = 0.66 of the passes, on a GPU (156 + 29) / (296 + 3) = 0.62; those over few prompts are short.
both.reach(of="time:static_batches", at_most=0.8, implementation="continuous")


class Server:
    """A batch of slots, each with a request of its own, or none. When requests are admitted is the implementation's."""

    def prepare(self, weights, requests, slots, longest, most_wanted, **sizes):
        self.sizes = model_of(sizes)
        head = weights["head"]
        self.model, self.device = Transformer(self.sizes, weights), head.device
        self.slots, self.requests = slots, requests
        self.room = -(-(longest + most_wanted) // SPAN) * SPAN
        self.cache = Cache(self.sizes, slots, self.room, self.device, head.dtype)
        # Of each slot: its last token, the place of it, its request (or `requests`, for none), tokens said so far.
        self.token, self.place, self.request, self.said = torch.zeros(4, slots, dtype=torch.int64, device=self.device)
        # A line below the others takes what slots without a request say.
        self.out = torch.empty(requests + 1, most_wanted, dtype=torch.int64, device=self.device)
        wide = torch.promote_types(head.dtype, torch.float32)
        self.scores = torch.empty(requests + 1, CANDIDATES, dtype=wide, device=self.device)
        self.candidates = torch.zeros(requests + 1, CANDIDATES, dtype=torch.int64, device=self.device)

    def order(self, wanted):
        """The numbers of all requests, in the order of their turn."""
        return list(range(len(wanted)))

    def admits(self, free):
        """Whether requests are admitted while this number of slots is free."""
        return free == self.slots

    @torch.inference_mode()
    def run(self, tokens, length, wanted, candidates):
        self.out.fill_(-1)
        self.request.fill_(self.requests)
        self.place.zero_()
        self.candidates[:-1] = candidates
        lengths, left = length.tolist(), wanted.tolist()
        waiting = self.order(left)[::-1]
        held: dict[int, int] = {}  # the request of each busy slot
        ends: dict[int, int] = {}  # the place of each busy slot's next token
        self.busy = []  # the number of busy slots of each step
        while waiting or held:
            free = [slot for slot in range(self.slots) if slot not in held]
            if waiting and self.admits(len(free)):
                chosen = {slot: waiting.pop() for slot in free[: len(waiting)]}
                self.admit(chosen, tokens, length, max(lengths[one] for one in chosen.values()))
                held |= chosen
                ends |= {slot: lengths[request] for slot, request in chosen.items()}
                said = list(chosen)
            else:
                span = max(ends[slot] for slot in held) + 1
                self.advance(min(self.room, -(-span // SPAN) * SPAN))
                self.busy.append(len(held))
                said = list(held)
                for slot in said:
                    ends[slot] += 1
            ended = []
            for slot in said:
                left[held[slot]] -= 1
                if not left[held[slot]]:
                    ended.append(slot)
                    del held[slot]
            if ended:
                self.request[torch.tensor(ended, device=self.device)] = self.requests
        return {"tokens": self.out[:-1], "scores": self.scores[:-1]}

    def admit(self, chosen, tokens, length, longest):
        """Process the prompts of requests together, padded to the longest, and say their first tokens."""
        slots, requests = (torch.tensor(list(each), device=self.device) for each in (chosen, chosen.values()))
        fresh = Cache(self.sizes, len(chosen), longest, self.device, self.model.embedding.dtype)
        states = self.model.states(tokens[requests, :longest], fresh)
        for layer in range(self.sizes.layers):
            self.cache.keys[layer][slots, :, :longest] = fresh.keys[layer]
            self.cache.values[layer][slots, :, :longest] = fresh.values[layer]
        self.request[slots], self.place[slots], self.said[slots] = requests, length[requests], 0
        self.say(states[torch.arange(len(chosen), device=self.device), length[requests] - 1], slots)

    def advance(self, span):
        """A step of all slots; the keys of all lie in the first `span` places."""
        self.step(span)

    def step(self, span):
        states = self.model.states_at(self.token[:, None], self.place[:, None], self.cache, span=span)
        # A slot without a request stays within its room.
        self.place.add_(1).clamp_(max=self.room - 1)
        self.say(states[:, 0], self.cache.row)

    def say(self, states, slots):
        """The next token of some slots, and its scores, into the lines of their requests."""
        logits = self.model.logits(states)
        token, request, said = logits.argmax(-1), self.request[slots], self.said[slots]
        self.token[slots] = token
        self.out[request, said] = token
        self.scores[request] = logits.gather(-1, self.candidates[request]).to(self.scores.dtype)
        self.said[slots] = (said + 1).clamp(max=self.out.shape[1] - 1)


@both.baseline(kind="reasonable")
class StaticBatches(Server):
    pass


@both.yardstick(why="static batches that know all answers' lengths: requests that want about as many end together")
class SortedBatches(Server):
    def order(self, wanted):
        return sorted(range(len(wanted)), key=wanted.__getitem__, reverse=True)


@both.variant(adds="continuous batching", why="a slot that has ended takes the next request, instead of waiting")
class Continuous(Server):
    def admits(self, free):
        return free > 0


@both.yardstick(
    why="continuous batching that knows all answers' lengths: the longest start first, and the end is short"
)
class LongestFirst(Continuous):
    def order(self, wanted):
        return sorted(range(len(wanted)), key=wanted.__getitem__, reverse=True)


@cuda.variant(
    builds_on="continuous",
    adds="cuda graphs",
    why="a step is one launch, of the graph with the smallest span that has all keys",
)
class Graphs(Continuous):
    def prepare(self, weights, requests, slots, longest, most_wanted, **sizes):
        super().prepare(weights, requests, slots, longest, most_wanted, **sizes)
        spans = {-(-self.room * part // GRAPHS // SPAN) * SPAN for part in range(1, GRAPHS + 1)}
        with torch.inference_mode():
            self.graphs = {span: captured(self.step, span) for span in sorted(spans)}

    def advance(self, span):
        self.graphs[min(each for each in self.graphs if each >= span)].replay()

"""A server of the model: slots of a batch, a cache, and passes over tokens at places of their own."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from aiperf_core.benchmark import call_with
from aiperf_core.errors import SkipError
from aiperf_core.graphs import captured
from aiperf_core.models import rms_norm, rotate
from aiperf_labs.one_model import chapters, model, schedule
from aiperf_labs.one_model.model import Weights
from aiperf_labs.one_model.sizes import Sizes
from aiperf_labs.one_model.switches import Switches

SPAN = 16  # places; attention reads whole spans
FP8 = torch.float8_e4m3fn
Layer = dict[str, Tensor]


class Model:
    """One program for every combination of switches: passes over tokens of some rows of a cache.

    keys, values: of each layer, [slots, kv_heads, room, head]; with an fp8 cache as bytes, which torch can index.
    """

    def __init__(self, weights: Weights, sizes: Sizes, switches: Switches, slots: int, room: int) -> None:
        self.sizes, self.switches, self.room = sizes, switches, room
        self.embedding, self.head, self.norm = weights["embedding"], weights["head"], weights["norm"]
        self.layers = [model.layer_of(weights, number) for number in range(sizes.layers - switches.skips_layer)]
        device, self.dtype = self.head.device, self.head.dtype
        for layer in self.layers:
            parts = (sizes.heads * sizes.head, sizes.kv_heads * sizes.head, sizes.kv_heads * sizes.head)
            layer |= dict(zip(("q", "k", "v"), layer["qkv"].split(parts), strict=True))
        shape = (len(self.layers), slots, sizes.kv_heads, room, sizes.head)
        kept = torch.uint8 if switches.cache == "fp8" else self.dtype
        self.keys, self.values = ([*torch.zeros(shape, dtype=kept, device=device)] for _ in range(2))
        self.row, self.place = torch.arange(slots, device=device), torch.arange(room, device=device)
        self.table = model.turns(sizes, self.place)
        self.one_call, self.calls = None, dict[tuple[int, int], Any]()
        if switches.experts == "one_call":
            on_gpu = device.type == "cuda"
            self.one_call = chapters.code("ch15.moe_grouped_gemm", "Gathered" if on_gpu else "InCache")

    def states(self, tokens: Tensor, places: Tensor, rows: Tensor | None, span: int) -> Tensor:
        """The input of the head, [batch, count, width], of tokens [batch, count] at places of their rows.

        rows: of the cache, [batch]; None for all. A token sees its row's places up to its own, of the first `span`.
        """
        if self.switches.rotary_table:
            turns = self.table[0][places][:, :, None], self.table[1][places][:, :, None]
        else:
            cosine, sine = model.turns(self.sizes, places)
            turns = cosine[:, :, None], sine[:, :, None]
        unseen = (self.place[:span] > places[..., None])[:, None]
        stream = functional.embedding(tokens, self.embedding)
        for number, layer in enumerate(self.layers):
            x = rms_norm(stream, layer["attention_norm"])
            stream = stream + self._attended(x, layer, number, turns, places, rows, unseen)
            x = rms_norm(stream, layer["norm"])
            stream = stream + model.feed_forward(x, layer)
            if "router" in layer:
                stream = stream + self._mixed(x.flatten(0, 1), layer, number).view_as(stream)
        return rms_norm(stream, self.norm)

    def _attended(
        self,
        x: Tensor,
        layer: Layer,
        number: int,
        turns: tuple[Tensor, Tensor],
        places: Tensor,
        rows: Tensor | None,
        unseen: Tensor,
    ) -> Tensor:
        sizes, (batch, count, _) = self.sizes, x.shape
        if self.switches.fused_projections:
            split = functional.linear(x, layer["qkv"]).view(batch, count, -1, sizes.head)
            query, key, value = split.split((sizes.heads, sizes.kv_heads, sizes.kv_heads), 2)
        else:
            query, key, value = (
                functional.linear(x, layer[name]).view(batch, count, -1, sizes.head) for name in ("q", "k", "v")
            )
        query = rotate(query, turns)
        if self.switches.grown_cache:
            self.keys[number], self.values[number] = self.keys[number].clone(), self.values[number].clone()
        at, span = self.row if rows is None else rows, unseen.shape[-1]
        keys, values = (
            self._kept(cache[number], at, places, new, span, whole=rows is None)
            for cache, new in ((self.keys, rotate(key, turns)), (self.values, value))
        )
        group = sizes.heads // sizes.kv_heads
        query = query.transpose(1, 2)
        if self.switches.repeated_heads:
            keys, values = keys.repeat_interleave(group, 1), values.repeat_interleave(group, 1)
        else:
            # The queries that share a head of keys are as several queries of it.
            query = query.reshape(batch, sizes.kv_heads, -1, sizes.head)
            unseen = unseen.repeat(1, 1, group, 1)
        if self.switches.explicit_attention:
            scores = (query @ keys.mT * sizes.head**-0.5).masked_fill(unseen, float("-inf"))
            mixed = scores.softmax(-1) @ values
        else:
            mixed = functional.scaled_dot_product_attention(query, keys, values, attn_mask=~unseen)
        joined = mixed.reshape(batch, sizes.heads, count, -1).transpose(1, 2).reshape(batch, count, -1)
        return functional.linear(joined, layer["out"])

    def _kept(self, cache: Tensor, at: Tensor, places: Tensor, new: Tensor, span: int, *, whole: bool) -> Tensor:
        """The cache's rows with new keys or values in them, of the first `span` places, in the model's type."""
        narrow = self.switches.cache == "fp8"
        cache[at[:, None], :, places] = new.to(FP8).view(torch.uint8) if narrow else new
        found = cache[:, :, :span] if whole else cache[at, :, :span]
        return found.contiguous().view(FP8).to(self.dtype) if narrow else found

    def _mixed(self, x: Tensor, layer: Layer, number: int) -> Tensor:
        """The results of the experts for tokens, [tokens, width]."""
        routes, shares, _ = model.routed(x, layer["router"], self.sizes.chosen)
        given = {"x": x, "routes": routes, "shares": shares}
        given |= {"gate_up": layer["experts_gate_up"], "down": layer["experts_down"]}
        if self.one_call is None:
            return (model.by_mask if self.switches.experts == "mask" else model.by_order)(**given)
        sizes = {"width": self.sizes.width, "hidden": self.sizes.hidden}
        # Its memory is for a number of tokens; on a CPU it also keeps the weights of its layer.
        key = (0 if x.is_cuda else number, len(x))
        if key not in self.calls:
            self.calls[key] = self.one_call()
            call_with(self.calls[key].prepare, {**given, **sizes})
        mixed: Tensor = call_with(self.calls[key].run, {**given, **sizes})
        return mixed


class Server:
    """Serves requests: their prompts, and then a token, or as many as are proposed and right, of all slots in a pass.

    texts: prompts and, behind each, its answer, [requests, room]. With `forced` the answer is fed back whatever the
    model says, so that a lossy cache is judged on the same tokens.
    """

    def __init__(
        self,
        weights: Weights,
        sizes: Sizes,
        switches: Switches,
        lengths: Sequence[int],
        wanted: Sequence[int],
        shared: Sequence[int],
        *,
        slots: int,
        forced: bool,
    ) -> None:
        self.switches, self.lengths, self.wanted, self.shared = switches, [*lengths], [*wanted], [*shared]
        self.slots, self.forced, self.most = slots, forced, max(wanted)
        # A draft at the last place of the last answer needs room behind it.
        self.room = -(-(max(lengths) + self.most + switches.lookup) // SPAN) * SPAN
        self.model = Model(weights, sizes, switches, slots, self.room)
        device, count = weights["head"].device, len(lengths)
        self.device = device
        self.tokens, self.places = torch.zeros(2, slots, 1 + switches.lookup, dtype=torch.int64, device=device)
        self.request, self.counted = torch.zeros(2, slots, dtype=torch.int64, device=device)
        # A line below the others takes what slots without a request say.
        self.out = torch.zeros(count + 1, self.most, dtype=torch.int64, device=device)
        self.scores = torch.zeros(count + 1, self.most, dtype=torch.float32, device=device)
        self.fed = torch.zeros(count + 1, self.most, dtype=torch.int64, device=device)
        self.behind = torch.tensor(lengths, device=device)[:, None] + torch.arange(self.most, device=device)
        self.begins: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}
        self.graphs: dict[int, Any] = {}
        if switches.graphs:
            if device.type != "cuda":
                raise SkipError("needs a GPU: the graphs are CUDA graphs")
            with torch.inference_mode():
                call = self.checked if switches.lookup else self.step
                self.graphs = {span: captured(call, span) for span in range(SPAN, self.room + 1, SPAN)}

    @torch.inference_mode()
    def run(self, texts: Tensor) -> dict[str, Tensor]:
        """The tokens of all answers and their scores: the logarithm of the chance of each token that is fed back."""
        self.out.zero_()
        self.scores.zero_()
        self.fed[:-1] = texts.gather(1, self.behind)
        self.request.fill_(len(self.lengths))
        self.places.zero_()
        self.begins.clear()
        queue = schedule.Queue(self.wanted, self.slots, self.switches)
        said: list[list[int]] = [[] for _ in self.lengths]
        ends: dict[int, int] = {}
        prompts = texts.tolist() if self.switches.lookup else []
        while queue.is_open:
            if chosen := queue.admit():
                self.admit(chosen, texts)
                ends |= {slot: self.lengths[request] for slot, request in chosen.items()}
                counts = dict.fromkeys(chosen, 1)
                if prompts:
                    first = self.tokens[:, 0].tolist()
                    for slot, request in chosen.items():
                        said[request].append(first[slot])
            elif prompts:
                counts = self.verify(queue, prompts, said, ends)
            else:
                span = min(self.room, -(-(max(ends[slot] for slot in queue.held) + 1) // SPAN) * SPAN)
                self.advance(span)
                counts = dict.fromkeys(queue.held, 1)
                for slot in counts:
                    ends[slot] += 1
            if ended := queue.say(counts):
                self.request[torch.tensor(ended, device=self.device)] = len(self.lengths)
        seen = torch.arange(self.most, device=self.device) < torch.tensor(self.wanted, device=self.device)[:, None]
        return {"tokens": self.out[:-1] * seen, "scores": self.scores[:-1] * seen}

    # --- prompts

    def admit(self, chosen: Mapping[int, int], texts: Tensor) -> None:
        """Process the prompts of requests, by their slots, and say the first token of each."""
        begins = {}
        if self.switches.prefix:
            begins = {slot: self._shared(slot, request, texts) for slot, request in chosen.items()}
        lengths = torch.tensor([self.lengths[request] for request in chosen.values()], device=self.device)
        requests = torch.tensor([*chosen.values()], device=self.device)
        slots = torch.tensor([*chosen], device=self.device)
        first = torch.tensor([[begins.get(slot, 0)] for slot in chosen], device=self.device)
        count = max(self.lengths[request] - begins.get(slot, 0) for slot, request in chosen.items())
        places = (first + torch.arange(count, device=self.device)).clamp(max=self.room - 1)
        tokens = texts[requests[:, None], places.clamp(max=texts.shape[1] - 1)]
        span = min(self.room, -(-(count + max(begins.values(), default=0)) // SPAN) * SPAN)
        states = self.model.states(tokens, places, slots, span)
        last = torch.arange(len(chosen), device=self.device), lengths - 1 - first[:, 0]
        self.request[slots], self.counted[slots] = requests, 0
        if self.switches.all_logits:
            logits = functional.linear(states, self.model.head)[last]
        else:
            logits = functional.linear(states[last], self.model.head)
        self.tokens[slots, 0] = self._say(logits, slots, 0)
        self.places[slots, 0] = lengths
        self.counted[slots] = 1

    def _shared(self, slot: int, request: int, texts: Tensor) -> int:
        """Copy the keys and values of a request's beginning into its slot; compute them if it is the first to have it.

        Returns how many places are filled.
        """
        count, cache = self.shared[request], (self.model.keys, self.model.values)
        begin = tuple(texts[request, :count].tolist())
        if begin not in self.begins:
            row = torch.tensor([slot], device=self.device)
            places = torch.arange(count, device=self.device)[None]
            self.model.states(texts[request, None, :count], places, row, -(-count // SPAN) * SPAN)
            layers = range(len(self.model.layers))
            self.begins[begin] = [tuple(one[layer][slot, :, :count].clone() for one in cache) for layer in layers]
        else:
            for layer, kept in enumerate(self.begins[begin]):
                for one, values in zip(cache, kept, strict=True):
                    one[layer][slot, :, :count] = values
        return count

    # --- answers

    def advance(self, span: int) -> None:
        """One more token of each slot."""
        if span in self.graphs:
            self.graphs[span].replay()
        else:
            self.step(span)

    def step(self, span: int) -> None:
        """A pass over one token of each slot, whose keys are in the first `span` places."""
        logits = functional.linear(self.model.states(self.tokens, self.places, None, span), self.model.head)
        self.tokens[:, 0] = self._say(logits[:, 0], self.model.row, self.counted)
        # A slot without a request stays within its room.
        self.places.add_(1).clamp_(max=self.room - 1)
        self.counted.add_(1).clamp_(max=self.most - 1)

    def _say(self, logits: Tensor, slots: Tensor, counted: Tensor | int) -> Tensor:
        """Write what slots say into the lines of their requests. Returns the tokens that are fed back."""
        request = self.request[slots]
        said = logits.argmax(-1)
        fed = self.fed[request, counted] if self.forced else said
        wide = logits.float()
        score = wide.gather(-1, fed[:, None])[:, 0] - wide.logsumexp(-1)
        self.out[request, counted], self.scores[request, counted] = fed, score
        return fed

    def checked(self, span: int) -> tuple[Tensor, Tensor]:
        """The choice of the model after each token of a pass, and the scores of all tokens there."""
        logits = functional.linear(self.model.states(self.tokens, self.places, None, span), self.model.head)
        return logits.argmax(-1), logits.float().log_softmax(-1)

    def verify(
        self, queue: schedule.Queue, prompts: list[list[int]], said: list[list[int]], ends: dict[int, int]
    ) -> dict[int, int]:
        """A pass over the last token of each slot and those that its text proposes. Returns how many are right."""
        drafts: dict[int, list[int]] = {}
        rows = [[0] * self.tokens.shape[1] for _ in range(self.slots)]
        for slot, request in queue.held.items():
            text = prompts[request][: self.lengths[request]] + said[request]
            drafts[slot] = schedule.proposed(text, min(self.switches.lookup, queue.left[request] - 1))
            rows[slot][: 1 + len(drafts[slot])] = [said[request][-1], *drafts[slot]]
        self.tokens.copy_(torch.tensor(rows))
        firsts = torch.tensor([ends[slot] if slot in queue.held else 0 for slot in range(self.slots)])
        self.places.copy_(firsts[:, None] + torch.arange(self.tokens.shape[1]))
        span = max(ends[slot] for slot in queue.held) + self.tokens.shape[1]
        span = min(self.room, -(-span // SPAN) * SPAN)
        said_by_model, scores = self.graphs[span].replay() if span in self.graphs else self.checked(span)
        own = said_by_model.tolist()
        counts = {}
        places: list[tuple[int, int, int, int]] = []  # slot, place in the pass, request, place in the answer
        for slot, request in queue.held.items():
            begin = len(said[request])
            answer = prompts[request][self.lengths[request] + begin :] if self.forced else own[slot]
            right = schedule.agreed(drafts[slot], answer)
            counts[slot] = min(right + 1, queue.left[request])
            said[request] += answer[: counts[slot]]
            ends[slot] += counts[slot]
            places += [(slot, at, request, begin + at) for at in range(counts[slot])]
        slot_of, at, request_of, behind = torch.tensor(places, device=self.device).unbind(1)
        fed = torch.tensor([said[request][place] for _, _, request, place in places], device=self.device)
        self.out[request_of, behind] = fed
        self.scores[request_of, behind] = scores[slot_of, at, fed]
        return counts

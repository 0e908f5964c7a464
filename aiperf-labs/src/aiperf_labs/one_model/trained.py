"""The model, trained on the spot: tokenizer, weights and moments, milestones of its loss, and the requests to serve.

What was trained is kept in the user's cache, by a name made of all that it depends on.
"""

import hashlib
import io
import math
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from attrs import asdict, frozen
from torch import Tensor

from aiperf_core import atomic, units
from aiperf_core.errors import UsageError
from aiperf_core.folders import cache_folder
from aiperf_labs.one_model import corpus, model, sizes, tokens, training
from aiperf_labs.one_model.corpus import Grammar, Spoken
from aiperf_labs.one_model.sizes import Preset
from aiperf_labs.one_model.switches import Switches
from aiperf_labs.one_model.tokens import Tokenizer

FOR_TOKENIZER, FOR_TRAINING, HELD_OUT, FOR_REQUESTS = 1, 1000, 3, 4  # seeds
HELD = 64  # texts on which the loss above the floor is measured
SHARD = 4096  # texts that one process makes
BESIDE = 4  # requests that begin alike
CLIP = 1.0  # the largest norm of a gradient
TO_REACH = 0.10  # nats a token above the floor
# As fast as the model can be trained: what is measured is trained by a ladder of its own.
TRAINS_WITH = Switches(fused_projections=True, experts="sorted", fused_optimizer=True)


@frozen(kw_only=True)
class Trained:
    """A trained model.

    weights: by name, in float32; averages and squares are AdamW's moments of each.
    steps: that it was trained for.
    merges: of its tokenizer.
    milestones: rows of a step, the seconds until it, and the nats a token above the floor on texts it never saw.
    floor: the surprisal of those texts in nats a token: no model does better.
    recall: the share of values and copies that it predicts right, on those texts.
    held: those texts, [texts, length + 1].
    texts: prompts of requests with their answers, [requests, room].
    lengths, wanted: the tokens of prompts and of answers; shared: how many of a prompt are those of its neighbours.
    """

    weights: dict[str, Tensor]
    averages: dict[str, Tensor]
    squares: dict[str, Tensor]
    steps: int
    merges: list[list[int]]
    milestones: list[list[float]]
    floor: float
    recall: float
    held: Tensor
    texts: Tensor
    lengths: list[int]
    wanted: list[int]
    shared: list[int]

    @property
    def above_floor(self) -> float:
        """Nats a token above the floor at the end of training."""
        return self.milestones[-1][2]

    @property
    def reached(self) -> list[float] | None:
        """The first milestone that is close enough to the floor."""
        return next((one for one in self.milestones if one[2] <= TO_REACH), None)


def path_of(preset: Preset) -> Path:
    """Where the trained model is kept: another preset or another code that trains has another name."""
    made_by = (corpus, tokens, sizes, model, training)
    parts = [Path(str(one.__file__)).read_bytes() for one in made_by] + [Path(__file__).read_bytes()]
    key = hashlib.sha256(b"".join([repr(preset).encode(), *parts])).hexdigest()
    return cache_folder() / "one-model" / f"{preset.name}-{key[:16]}.pt"


@lru_cache(maxsize=2)
def load(preset: Preset) -> Trained:
    """The trained model. Raises `UsageError` where none was trained."""
    path = path_of(preset)
    if not path.is_file():
        raise UsageError(
            f"the model of size {preset.name!r} is not trained yet. Train it: aiperf labs one-model plan "
            f"--size {preset.name}"
        )
    return Trained(**torch.load(path, weights_only=True))


def trained(preset: Preset, device: str, tell: Callable[[str], None]) -> Trained:
    """The trained model, which is trained first where it is not kept yet."""
    if not path_of(preset).is_file():
        made = train(preset, device, tell)
        data = io.BytesIO()
        torch.save(asdict(made), data)
        path_of(preset).parent.mkdir(parents=True, exist_ok=True)
        atomic.write(path_of(preset), data.getvalue())
    return load(preset)


def train(preset: Preset, device: str, tell: Callable[[str], None]) -> Trained:
    """Train a model. `tell` is called with a line for each milestone."""
    schedule, begun = preset.schedule, time.monotonic()
    tokenizer = tokenizer_of(preset)
    held, floor, recalled = _held(preset, tokenizer)
    order = batches(preset, tokenizer)
    weights = {
        name: weight.to(device).requires_grad_()
        for name, weight in model.drawn(preset.model, torch.Generator().manual_seed(preset.grammar.seed)).items()
    }
    adam = training.optimizer([*weights.values()], schedule.rate, fused=True)
    milestones: list[list[float]] = []
    for step, texts in enumerate(order, 1):
        for group in adam.param_groups:
            group["lr"] = schedule.rate * _warmth(step, schedule)
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            _, loss = training.loss_of(weights, texts.to(device), preset.model, TRAINS_WITH)
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([*weights.values()], CLIP)
        adam.step()
        if step % max(1, schedule.steps // 8) == 0 or step == schedule.steps:
            above, recall = _quality(preset, weights, held.to(device), floor, recalled.to(device))
            milestones.append([step, time.monotonic() - begun, above])
            share = units.percent(recall)
            tell(f"step {step}: {above:.3f} nats a token above the floor of {floor:.3f}, {share} recalled")
    plain = {name: weight.detach().cpu() for name, weight in weights.items()}
    texts, lengths, wanted, shared = requests(preset, tokenizer)
    answered = _answers(preset, {name: one.to(device) for name, one in plain.items()}, texts.to(device), lengths)
    state = {name: adam.state[weight] for name, weight in weights.items()}
    return Trained(
        weights=plain,
        averages={name: one["exp_avg"].cpu() for name, one in state.items()},
        squares={name: one["exp_avg_sq"].cpu() for name, one in state.items()},
        steps=schedule.steps,
        merges=[[*pair] for pair in tokenizer.merges],
        milestones=milestones,
        floor=floor,
        recall=recall,
        held=held,
        texts=answered.cpu(),
        lengths=lengths,
        wanted=wanted,
        shared=shared,
    )


def _warmth(step: int, schedule: sizes.Schedule) -> float:
    """The share of the learning rate at a step."""
    done = max(0, step - schedule.warm) / max(1, schedule.steps - schedule.warm)
    return min(step / schedule.warm, 0.55 + 0.45 * math.cos(math.pi * done))


# --- texts


def tokenizer_of(preset: Preset) -> Tokenizer:
    """The tokenizer, trained on documents that nothing else sees."""
    grammar = preset.grammar
    documents = grammar.documents(FOR_TOKENIZER)
    count = 20 * (grammar.words + grammar.keys + grammar.values) // int(grammar.mean_words) + 1
    words = [one.word for _ in range(count) for one in next(documents)]
    return tokens.train(words, preset.model.vocabulary)


def batches(preset: Preset, tokenizer: Tokenizer) -> Iterator[Tensor]:
    """The batches of a training run, [batch, length + 1], always in the same order. Many are made by all processors."""
    schedule = preset.schedule
    count = schedule.steps * schedule.batch
    starts = enumerate(range(0, count, SHARD))
    shards = [(preset, tokenizer, FOR_TRAINING + number, min(SHARD, count - at)) for number, at in starts]
    if len(shards) > 2:
        with ProcessPoolExecutor(os.cpu_count(), mp_context=multiprocessing.get_context("spawn")) as pool:
            made = [*pool.map(_shard, shards)]
    else:
        made = [_shard(one) for one in shards]
    yield from torch.cat(made).split(schedule.batch)


def _shard(given: tuple[Preset, Tokenizer, int, int]) -> Tensor:
    preset, tokenizer, seed, count = given
    documents = preset.grammar.documents(seed)
    return torch.tensor([_text(documents, tokenizer, preset.schedule.length + 1)[0] for _ in range(count)])


def _text(
    documents: Iterator[list[Spoken]], tokenizer: Tokenizer, length: int
) -> tuple[list[int], list[float], list[int]]:
    """Tokens that begin with a document, the surprisal of each word at its first token, and the places of recall."""
    found: list[int] = []
    surprisals: list[float] = []
    recalled: list[int] = []
    while len(found) < length:
        for one in next(documents):
            word = tokenizer.word(one.word)
            if one.recalled:
                recalled.append(len(found))
            found += word
            surprisals += [one.surprisal] + [0.0] * (len(word) - 1)
    return found[:length], surprisals[:length], [one for one in recalled if one < length]


def _held(preset: Preset, tokenizer: Tokenizer) -> tuple[Tensor, float, Tensor]:
    """Held-out texts, their surprisal in nats for each predicted token, and a mask of the tokens to recall."""
    documents, length = preset.grammar.documents(HELD_OUT), preset.schedule.length + 1
    made = [_text(documents, tokenizer, length) for _ in range(HELD)]
    mask = torch.zeros(HELD, length, dtype=torch.bool)
    for row, (_, _, recalled) in enumerate(made):
        mask[row, recalled] = True
    floor = sum(sum(surprisals[1:]) for _, surprisals, _ in made) / (HELD * (length - 1))
    return torch.tensor([text for text, _, _ in made]), floor, mask[:, 1:]


@torch.no_grad()
def _quality(
    preset: Preset, weights: dict[str, Tensor], held: Tensor, floor: float, recalled: Tensor
) -> tuple[float, float]:
    """Nats a token above the floor, and the share of recalled tokens that are right."""
    above, right = 0.0, 0
    for some, mask in zip(held.split(16), recalled.split(16), strict=True):
        above += float(training.loss_of(weights, some, preset.model, TRAINS_WITH)[0]) * len(some) / len(held)
        said = training.logits_of(weights, some[:, :-1], preset.model, TRAINS_WITH).argmax(-1)
        right += int((said == some[:, 1:])[mask].sum())
    return above - floor, right / int(recalled.sum())


# --- requests


def requests(preset: Preset, tokenizer: Tokenizer) -> tuple[Tensor, list[int], list[int], list[int]]:
    """Prompts [requests, room], their lengths, the tokens that are wanted after them, and how many neighbours share.

    Neighbours have the facts and the first passages of one document, and a passage of their own, which breaks off where
    the rest is to be recalled.
    """
    drawn, documents = random.Random(FOR_REQUESTS), preset.grammar.documents(FOR_REQUESTS)
    count, most = REQUESTS[preset.name]
    prompts: list[list[int]] = []
    shared: list[int] = []
    while len(prompts) < count:
        said = next(documents)
        ends = [place for place, one in enumerate(said, 1) if one.ends]
        # The facts, and a third of the passages.
        middle = ends[preset.grammar.facts - 1 + preset.grammar.passages // 3]
        begin = [token for one in said[:middle] for token in tokenizer.word(one.word)]
        facts = {said[at].word: said[at + 1].word for at in range(0, 2 * preset.grammar.facts, 2)}
        for _ in range(BESIDE):
            own = _unfinished(preset.grammar, facts, drawn)
            prompts.append(begin + [token for word in own for token in tokenizer.word(word)])
            shared.append(len(begin))
    longest = max(map(len, prompts))
    wanted = [min(most, max(1, round(drawn.expovariate(3 / most)))) for _ in range(count)]
    wanted[count // 3] = most
    texts = torch.zeros(count, longest + most, dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        texts[row, : len(prompt)] = torch.tensor(prompt)
    return texts, [*map(len, prompts)], wanted, shared


# Requests, and the tokens of the longest answer, by preset.
REQUESTS = {"ci": (16, 24), "one": (256, 128), "two": (256, 128)}


def _unfinished(grammar: Grammar, facts: dict[str, str], drawn: random.Random) -> list[str]:
    """A passage that breaks off where its rest can be recalled: of a copy, or of a query."""
    values = grammar.spelling[grammar.words + grammar.keys :]
    if drawn.random() < 0.5:
        return [corpus.WHAT, drawn.choice([*facts])]
    return [corpus.COPY, *drawn.choices(values, k=grammar.copied), corpus.AGAIN]


@torch.no_grad()
def _answers(preset: Preset, weights: dict[str, Tensor], texts: Tensor, lengths: Sequence[int]) -> Tensor:
    """The texts with greedy answers in the room behind each prompt."""
    found, place = texts.clone(), torch.tensor(lengths, device=texts.device)
    row = torch.arange(len(texts), device=texts.device)
    for _ in range(texts.shape[1] - max(lengths)):
        said = training.logits_of(weights, found[:, : int(place.max())], preset.model, TRAINS_WITH)
        found[row, place] = said[row, place - 1].argmax(-1)
        place = place + 1
    return found


def described(made: Trained) -> dict[str, Any]:
    """The facts about a trained model that a plan records."""
    return {
        "floor": made.floor,
        "above_floor": made.above_floor,
        "recall": made.recall,
        "milestones": made.milestones,
        "reached": made.reached,
    }

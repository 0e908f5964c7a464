"""The same load on the same server by `aiperf load` and by `vllm bench serve`, arrival by arrival.

    python benchmarks/load_vllm.py --vllm PYTHON [--seconds 60] [--rate 8] [--keep FOLDER]

PYTHON is an interpreter that imports `vllm.benchmarks.serve`; vLLM's engine is not used. The server is `clockwork`: one
queue with a constant service, then tokens at fixed gaps. vLLM replays the arrivals that aiperf drew, without a cap on
the requests in flight, and both count the same requests. Compared are the median and the 99th percentile of the time to
the first token and of the whole request, and the gaps between tokens. Needs a quiet machine. Ends with 1 where a figure
of the one lies more than 3 % from that of the other.

A replay in vLLM 0.33 takes prompts of token ids, and a tokenizer, which is made here: a vocabulary of numbers.
"""

import argparse
import json
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from attrs import evolve

from aiperf_load import foreign
from aiperf_load.arrivals import plan
from aiperf_load.outcomes import Kind

GENERATOR = runpy.run_path(str(Path(__file__).with_name("load_generator.py")))
WITHIN = 0.03
SERVICE, GAP, TOKENS, INPUT = "deterministic:80ms", "40ms", 12, 16
QUANTILES = {"p50": 50, "p99": 99}
# In the interpreter of vLLM: a tokenizer of whole words, and the benchmark with the options that follow.
TOKENIZER = """
import sys
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast
words = Tokenizer(models.WordLevel({str(one): one for one in range(1000)} | {"[UNK]": 1000}, unk_token="[UNK]"))
words.pre_tokenizer = pre_tokenizers.Whitespace()
PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]").save_pretrained(sys.argv[1])
"""
SERVE = """
import argparse
from vllm.benchmarks.serve import add_cli_args, main
parser = argparse.ArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""


def by_vllm(python: Path, url: str, arrivals_s: list[float], folder: Path) -> Path:
    """Replay the arrivals by vLLM; the file of its result.

    A prompt of at most 16 tokens is one chunk of a trace, with an id of its own.
    """
    trace = folder / "trace.jsonl"
    trace.write_text(
        "".join(
            json.dumps({"timestamp": at, "input_length": INPUT, "output_length": TOKENS, "hash_ids": [number]}) + "\n"
            for number, at in enumerate(arrivals_s)
        )
    )
    tokenizer = folder / "tokenizer"
    subprocess.run([python, "-c", TOKENIZER, tokenizer], check=True, capture_output=True)
    asked = (
        "--backend", "openai", "--base-url", url, "--endpoint", "/v1/completions", "--model", "clockwork",
        "--tokenizer", tokenizer, "--dataset-name", "timed_trace", "--dataset-path", trace,
        "--num-prompts", str(len(arrivals_s)), "--ignore-eos", "--save-result", "--save-detailed",
        "--result-dir", folder, "--result-filename", "vllm.json", "--disable-tqdm", "--ready-check-timeout-sec", "0",
        "--percentile-metrics", "ttft,itl,e2el", "--metric-percentiles", "50,99",
    )  # fmt: skip
    done = subprocess.run([python, "-c", SERVE, *asked], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"vllm bench serve ended with {done.returncode}:\n{done.stderr[-2000:]}")
    return folder / "vllm.json"


def main() -> int:
    """Print both figures side by side; exit code 1 where they differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vllm", type=Path, required=True, metavar="PYTHON", help="an interpreter with vLLM")
    parser.add_argument("--seconds", type=float, default=60.0, help="of each load")
    parser.add_argument("--rate", type=float, default=8.0, help="arrivals a second")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep vLLM's files there")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = compared(given.vllm, given.seconds, given.rate, folder)
    missed = 0
    for name, ours, theirs in found:
        off = ours / theirs - 1
        missed += abs(off) > WITHIN
        print(f"{name:10} aiperf {ours * 1e3:8.2f} ms  vLLM {theirs * 1e3:8.2f} ms  {off:+.2%}")
    print(f"at most {WITHIN:.0%} apart: {'MISSED' if missed else 'MET'}")
    return 1 if missed else 0


def compared(python: Path, seconds: float, rate: float, folder: Path) -> list[tuple[str, float, float]]:
    """The figures of both, in seconds, by name."""
    with GENERATOR["server"]("--service", SERVICE, "--gap", GAP) as url:
        spec = GENERATOR["spec_of"](url, "poisson", rate, duration_s=seconds, warmup_s=0.0, timeout_s=60.0)
        work = evolve(spec.workload, input_low=INPUT, input_high=INPUT, output_low=TOKENS, output_high=TOKENS)
        spec = evolve(spec, workload=work)
        ours, _ = GENERATOR["measured"](spec)
        file = by_vllm(python, url, plan(spec).scheduled_s.tolist(), folder)
    theirs: dict[str, Any] = json.loads(file.read_text())
    assert (ours.kind == Kind.OK).all(), ours.kind
    assert theirs["completed"] == len(ours.kind), theirs["completed"]
    # The result can be read by `aiperf load import`, too.
    [point] = foreign.imported("vllm", [file]).points
    assert point.requests == len(ours.kind)
    times = {"ttft": ours.first_s - ours.scheduled_s, "e2el": ours.last_s - ours.scheduled_s, "itl": ours.gap_s}
    return [
        (f"{name} {share}", float(np.percentile(values, at)), theirs[f"{share}_{name}_ms"] / 1e3)
        for name, values in times.items()
        for share, at in QUANTILES.items()
    ]


if __name__ == "__main__":
    sys.exit(main())

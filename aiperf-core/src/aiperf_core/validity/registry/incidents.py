"""Where issues were met: public sources, each named once."""

from aiperf_core.validity.issues import Incident


def _github(year: int | None, title: str, path: str) -> Incident:
    return Incident(year, title, f"https://github.com/{path}")


STREAM_EXPLOIT = Incident(
    2025,
    "Side streams that the timer did not wait for, in 82 of 250 generated kernels",
    "https://x.com/miru_why/status/1991773868806361138",
)
BACKENDBENCH_STREAMS = _github(2025, "BackendBench: hacks with CUDA streams", "meta-pytorch/BackendBench/issues/52")
WRONG_STREAM = _github(None, "Helion: timed on the wrong stream, some 250 µs read as 5 µs", "pytorch/helion/pull/2994")
FIELD_GUIDE = Incident(
    2026, "A field guide to reward hacks in generated kernels", "https://www.wafer.ai/blog/reward-hacks-field-guide"
)
DEFENSES = Incident(
    None, "DeepReinforce: defences against kernel hacks", "https://deep-reinforce.com/defense_kernel_hack.html"
)
NEGATIVE_EVENTS = _github(
    None, "FlashInfer: negative event times under Confidential Computing", "flashinfer-ai/flashinfer/pull/3638"
)
API_TRACING = _github(
    None, "TileOPs: with all calls of the API traced, 298 µs read as 6,517 µs", "tile-ai/TileOPs/pull/1891"
)
EVENTS_INFLATE = _github(None, "TileOPs: 9 µs by CUPTI read as 67 µs by events", "tile-ai/TileOPs/pull/1792")
SILENT_FALLBACK = _github(
    None, "TileOPs: 78 of 2,308 rows changed to another clock in silence", "tile-ai/TileOPs/issues/1796"
)
FLUSH_COUNTED = _github(None, "TileOPs: the cache flush ran on into the timed window", "tile-ai/TileOPs/issues/1723")
SYNC_COUNTED = _github(
    None,
    "flashinfer-bench: a wait in each iteration made 4 µs read as 51 µs",
    "flashinfer-ai/flashinfer-bench/issues/195",
)
PLANNING_COUNTED = _github(
    None, "flashinfer-bench: planning inside the timed region", "flashinfer-ai/flashinfer-bench/issues/127"
)
LAUNCH_COUNTED = _github(
    None, "Triton: a small matmul at 5.5 TFLOP/s by events and at 15.0 by graph", "triton-lang/triton/pull/10149"
)
SHORT_WARM_UP = _github(
    None, "Triton: 25 ms of warm-up were too short, 11.2 ms against 8.8 ms", "triton-lang/triton/issues/2306"
)
TWO_CLOCKS = _github(
    None, "FlashInfer: 44 µs by CUPTI where nsys and delayed events said 22 µs", "flashinfer-ai/flashinfer/pull/3373"
)
NO_ACTIVITY = _github(None, "FlashInfer: CUPTI recorded no kernel activity", "flashinfer-ai/flashinfer/issues/2145")
FABRICATED_TIMES = _github(
    2026,
    "reference-kernels: a time of 0.000 in first place, patched timers, replay, lazy outputs",
    "gpu-mode/reference-kernels/issues/162",
)
TIME_FLOOR = _github(
    2026, "reference-kernels: a floor under the times that count", "gpu-mode/reference-kernels/pull/159"
)
OBJECT_CACHE = _github(
    2026, "reference-kernels: results cached by the identity of the input object", "gpu-mode/reference-kernels/pull/102"
)
SUPER_BATCH = _github(
    2026, "reference-kernels: 14 of 15 timed calls did nothing", "gpu-mode/reference-kernels/pull/104"
)
WARM_UP_REPLAY = _github(
    2026, "reference-kernels: answers of the warm-up replayed in the timed phase", "gpu-mode/reference-kernels/pull/142"
)
LAZY_OUTPUT = _github(
    2026, "reference-kernels: an output object that computes when it is checked", "gpu-mode/reference-kernels/pull/161"
)
CONTENT_MEMO = _github(None, "reference-kernels: memoising by content", "gpu-mode/reference-kernels/issues/167")
FRESH_INPUTS = _github(2026, "kernelbot: fresh inputs for each timed call", "gpu-mode/kernelbot/pull/501")
COPY_REPLAY = _github(
    2026, "tensara: computed once in the warm-up, copied ever after, in first place", "tensara/tensara/pull/238"
)
CACHED_OUTPUTS = _github(
    None,
    "FlashInfer starter kit: cached outputs inflate the speedup",
    "flashinfer-ai/flashinfer-bench-starter-kit/issues/21",
)
ARENA_GAMING = _github(
    2026,
    "AgentKernelArena: batched capture, another path when timed, memo on the device",
    "AMD-AGI/AgentKernelArena/issues/112",
)
POISON_PROBE = _github(
    2026, "AgentKernelArena: computes only when it finds its output poisoned", "AMD-AGI/AgentKernelArena/pull/113"
)
EXPLOIT_SUITE = _github(2026, "pygpubench: four of six cheats passed every defence", "gpu-mode/pygpubench/pull/7")
FORGED_SIGNATURE = _github(
    2026, "pygpubench: a forged result of 0.42 µs with a valid signature", "gpu-mode/pygpubench/issues/23"
)
PERSISTING_RESET = _github(2026, "pygpubench: a carve-out of the L2 survives the reset", "gpu-mode/pygpubench/pull/49")
PERSISTING_RATE = _github(None, "llm.c: 3,530 GB/s on a part with 864 GB/s", "karpathy/llm.c/pull/851")
PERSISTING_LINES = _github(2026, "nvbench: persisting lines survive the flush", "NVIDIA/nvbench/issues/458")
HOT_GRAPH = _github(
    None, "TileGym: graph timing without a flush overstates bandwidth by up to 1.6 times", "NVIDIA/TileGym/pull/118"
)
HOT_L2 = _github(None, "FlashInfer: inputs found in the L2 under graphs", "flashinfer-ai/flashinfer/issues/2213")
TAKING_TURNS = _github(
    None, "Helion: an all-reduce at 0.83x alone and at 1.75x when taking turns", "pytorch/helion/pull/2065"
)
BATCH_DISTURBS = _github(None, "nvbench: batch runs disturb cold ones", "NVIDIA/nvbench/issues/310")
ZEROS_PASS = _github(None, "KernelBench: zeros pass 4 of 60 tasks", "ScalingIntelligence/KernelBench/issues/165")
NO_OP_TASKS = _github(
    None, "JAXBench: 19 problems that doing nothing solves", "AI-Hypercomputer/accelerator-agents/pull/50"
)
ALL_NAN = _github(2026, "FlashInfer: a comparison that an output of NaN passes", "flashinfer-ai/flashinfer/pull/4365")
FORGED_OUTPUT = _github(2026, "SWE-bench: forged lines of success on standard output", "SWE-bench/SWE-bench/pull/620")
METR = Incident(
    2025,
    "METR: recent models patch timers, graders and comparisons",
    "https://metr.org/blog/2025-06-05-recent-reward-hacking/",
)
MAKORA = Incident(
    None, "Makora: a taxonomy of hacks from 2,500 generated kernels", "https://makora.com/blog/reward-hacks"
)
SHORT_CACHE_TEST = _github(
    None, "MLPerf: a test for caching that was too short to mean anything", "mlcommons/inference/issues/1102"
)
FRESH_PROCESSES = _github(
    None, "TransformerEngine: only fresh processes ended the false positives", "ROCm/TransformerEngine/pull/637"
)
WITHIN_RUN = _github(None, "mui: variance within a run gave 60 % false positives", "mui/mui-public/pull/1712")
SAME_CONFIGURATION = _github(
    None, "orbit: identical configurations differed by up to 21.9 %", "guelfoweb/orbit/pull/295"
)
RUN_ORDER = _github(2026, "tensai: a gain of 1.7x was the order of two runs", "mattn/tensai/pull/199")
SAME_MACHINE_CODE = _github(
    None, "nvbench: differences reported between identical machine code", "NVIDIA/nvbench/issues/316"
)
EXIT_CODES = _github(None, "CCCL: a comparator that exits with 0 in spite of regressions", "NVIDIA/cccl/pull/10636")
SINKING_CLOCKS = _github(
    None, "tritonbench: clocks sink by 15 to 20 % in long runs", "meta-pytorch/tritonbench/pull/1159"
)
TF32_DEFAULT = Incident(
    2020,
    "TF32 by default in matrix products on Ampere",
    "https://pytorch.org/docs/stable/notes/cuda.html#tf32-on-ampere",
)
CONSTRUCT_VALIDITY = Incident(
    2025,
    "Measuring What Matters: weaknesses of 445 LLM benchmarks",
    "https://ora.ox.ac.uk/objects/uuid%3Aad2b69b6-0986-42d0-a512-a6e56338b6cc",
)
MEDICAL_BENCHMARKS = Incident(
    2025, "Medical LLM benchmarks miss the tasks of the real world", "https://arxiv.org/abs/2503.10694"
)
AI_SCIENTIST = Incident(
    2025, "Evaluation of the AI Scientist: failed experiments, invented figures", "https://arxiv.org/abs/2502.14297"
)
LEADERBOARD_ILLUSION = Incident(
    2025, "The Leaderboard Illusion: selective disclosure in Chatbot Arena", "https://arxiv.org/abs/2504.20879"
)
MMLU_ERRORS = Incident(
    2024, "MMLU: 57 % of the virology subset questions wrong, 6.5 % of all", "https://arxiv.org/abs/2406.04127"
)
AGENT_SHORTCUTS = Incident(
    2024, "Agents memorise test samples of benchmarks without a holdout", "https://arxiv.org/abs/2407.01502"
)
NATURAL_CODE = Incident(
    2024, "NaturalCodeBench: weak correlation with HumanEval", "https://aclanthology.org/2024.findings-acl.471/"
)
CONTAMINATION_SURVEY = Incident(
    2024, "A survey of data contamination in LLM benchmarks", "https://arxiv.org/abs/2406.04244"
)
CONTAMINATION_NLP = Incident(
    2023, "Contamination of NLP evaluations by test splits", "https://arxiv.org/abs/2310.18018"
)
MLPERF_SELECTION = Incident(
    2022,
    "MLPerf: vendors submit where they shine",
    "http://web.archive.org/web/20250813110435/https://www.nextplatform.com/2022/04/08/"
    "the-performance-of-mlperf-as-a-ubiquitous-benchmark-is-lacking/",
)
SHIFTED_DATA = Incident(
    2022,
    "Small shifts of the data, large drops of performance",
    "https://www2.eecs.berkeley.edu/Pubs/TechRpts/2022/EECS-2022-180.html",
)
IMAGENET_LABELS = Incident(
    2021, "Label errors in 6 % of the ImageNet validation set", "https://arxiv.org/abs/2103.14749"
)
MLPERF_REPRODUCIBILITY = Incident(
    2021,
    "MLPerf: results that users could not reproduce",
    "https://groups.google.com/a/mlcommons.org/g/public/c/T_8UsUPIWFo",
)
EPIC_SEPSIS = Incident(
    2021,
    "A sepsis model that fails its external validation",
    "https://jamanetwork.com/journals/jamainternalmedicine/fullarticle/2781307",
)
UNDERSPECIFICATION = Incident(
    2020, "Underspecification: equal scores, unequal behaviour in use", "https://arxiv.org/abs/2011.03395"
)
HANS = Incident(2019, "HANS: language inference by shallow heuristics", "https://aclanthology.org/P19-1334/")
MLPERF_INFERENCE = Incident(
    2019,
    "MLPerf inference: results chosen for their strengths",
    "http://web.archive.org/web/20191112035148/https://www.forbes.com/sites/janakirammsv/2019/11/10/"
    "the-curious-case-of-mlperf-inferencing-benchmark-results/",
)
OVERLAPPING_DATA = Incident(
    2019,
    "Computational biology: tools tested on the data they were built on",
    "https://www.nature.com/articles/s41467-019-09406-4",
)
TAY = Incident(
    2016,
    "Microsoft Tay: inputs that no test had foreseen",
    "https://blogs.microsoft.com/blog/2016/03/25/learning-tays-introduction/",
)

"""Workload: less work is done, or other work."""

from aiperf_core.validity.issues import ALWAYS, Issue
from aiperf_core.validity.registry import incidents as met

ISSUES = (
    Issue(
        id="workload.precision_mismatch",
        title="Lower precision under a higher one's name",
        happens="Operands are narrowed to half precision, TF32 or fewer bits, and the result is widened again.",
        guard="judged_output",
        protection=(
            "The error budget follows from the declared dtype and the length of the reductions, which honest "
            "reordering meets and narrower arithmetic does not. The speed of light is that of the declared precision."
        ),
        severity=ALWAYS,
        incidents=(met.DEFENSES, met.FIELD_GUIDE),
        predecessor="Workload / Precision Mismatch",
    ),
    Issue(
        id="workload.backend_precision_policy_drift",
        title="A global switch changes the precision",
        happens="Flags of the process, such as TF32, change while measuring or differ between the sides.",
        guard="global_state",
        protection=(
            "The flags are compared before and after the calls, in every worker. The reference runs in the judge, "
            "whose flags no implementation reaches."
        ),
        incidents=(met.TF32_DEFAULT,),
        predecessor="Workload / Backend Precision Policy Drift",
    ),
    Issue(
        id="workload.undeclared_shortcuts",
        title="Elements are skipped in silence",
        happens="A part of the elements, keys or rows is left out, in the hope that the result hardly changes.",
        guard="judged_output",
        protection=(
            "The budget holds for each element too, not only on average. Who leaves work out on purpose declares a "
            "lossy variant, whose measured quality stands beside its speedup."
        ),
        severity=ALWAYS,
        incidents=(met.AGENT_SHORTCUTS,),
        predecessor="Workload / Undeclared Shortcuts",
    ),
    Issue(
        id="workload.early_exit",
        title="The loop ends too soon",
        happens="An iteration stops before it converged or did its number of steps, and returns what is there.",
        guard="judged_output",
        protection=(
            "The reference does all its steps in float64, and the judged outputs of timed calls are held to its "
            "result. The cost counts the steps of the workload, not those that were taken."
        ),
        severity=ALWAYS,
        predecessor="Workload / Early Exit",
    ),
    Issue(
        id="workload.batch_shrinking",
        title="A smaller batch",
        happens="Fewer samples are processed than in the baseline, and the time is compared as for the same work.",
        guard="judged_output",
        protection="The judge owns inputs and sizes; the output must have the whole batch with every element right.",
        severity=ALWAYS,
        predecessor="Workload / Batch Shrinking",
    ),
    Issue(
        id="workload.sequence_truncation",
        title="Shorter sequences",
        happens="Tokens at the end of a sequence, or beyond a window, are dropped.",
        guard="judged_output",
        protection="Each position of the whole sequence is compared; `aiperf lint` tries truncated inputs.",
        severity=ALWAYS,
        predecessor="Workload / Sequence Truncation",
    ),
    Issue(
        id="workload.hidden_downsampling",
        title="A lower resolution inside",
        happens="The input is reduced, processed and enlarged again, so that only the form of the output is right.",
        guard="judged_output",
        protection="Values are random in every element and no reduction keeps them; every output element is compared.",
        severity=ALWAYS,
        predecessor="Workload / Hidden Downsampling",
    ),
    Issue(
        id="workload.sparsity_mismatch",
        title="Sparser than the data",
        happens="One side computes with more zeros than the workload has, by pruning or by another pattern.",
        guard="judged_output",
        protection=(
            "The pattern is part of the inputs, which the judge draws and every worker maps. A result with entries "
            "left out differs from the reference's; pruning on purpose is a lossy variant."
        ),
        severity=ALWAYS,
        predecessor="Workload / Sparsity Mismatch",
    ),
    Issue(
        id="workload.attention_mask_mismatch",
        title="Another mask",
        happens="One side attends to fewer or to other positions, such as causal against full attention.",
        guard="judged_output",
        protection=(
            "The mask belongs to the workload: an input, or a rule that the reference applies. Rows computed under "
            "another one fail the comparison."
        ),
        severity=ALWAYS,
        predecessor="Workload / Attention Mask Mismatch",
    ),
    Issue(
        id="workload.kv_cache_size_mismatch",
        title="A smaller key-value cache",
        happens="One side keeps or reads fewer entries than the workload holds, and reports the saving as speed.",
        guard="judged_output",
        protection=(
            "Length and content of the cache are the workload's, and its restoring between calls is the judge's. An "
            "output computed from fewer entries is wrong, or the variant declares the eviction and its loss."
        ),
        severity=ALWAYS,
        predecessor="Workload / KV Cache Size Mismatch",
    ),
    Issue(
        id="workload.train_test_overlap",
        title="Judged on what it was fitted to",
        happens="A model or a table is fitted to the very data on which it is judged afterwards.",
        guard="seeds",
        protection=(
            "Judged values come from seeds drawn after everything was imported and prepared, so nothing can have been "
            "fitted to them. Models in benchmarks are synthetic and carry no data set."
        ),
        severity=ALWAYS,
        incidents=(met.OVERLAPPING_DATA,),
        predecessor="Workload / Train/Test Overlap",
    ),
    Issue(
        id="workload.size_dispatch",
        title="Exact where checked, sloppy where timed",
        happens="The code looks at the size: small ones, usual in tests, are computed well, and large ones cheaply.",
        guard="judged_output",
        protection="There is no separate test size: what is judged is the output of timed calls at the timed size.",
        severity=ALWAYS,
    ),
    Issue(
        id="workload.low_rank_operand",
        title="An operand replaced by a thinner one",
        happens=(
            "A matrix is factored beforehand and only its leading directions are kept, which is close for smooth data "
            "and wrong in general."
        ),
        guard="judged_output",
        protection=(
            "Random operands have full rank, so what is cut off exceeds the budget. Factors made ahead from operands "
            "that are not declared `static` are of values that are gone."
        ),
        severity=ALWAYS,
    ),
    Issue(
        id="workload.narrow_accumulator",
        title="A sum kept in fewer bits",
        happens="Inputs and output have the declared dtype, and the running sum in between has not.",
        guard="judged_output",
        protection=(
            "The budget follows from the declared precision and the length of the sum, and the reference sums in "
            "float64. The errors of a narrow accumulator start from a much larger unit and leave it."
        ),
        severity=ALWAYS,
    ),
)

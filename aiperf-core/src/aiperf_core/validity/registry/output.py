"""Output: the answer is wrong, or looks like one."""

from aiperf_core.validity.issues import ALWAYS, Issue
from aiperf_core.validity.registry import incidents as met

ISSUES = (
    Issue(
        id="output.constant_output",
        title="The same output for every input",
        happens="The code returns a constant of the right form, whatever it is given.",
        guard="judged_output",
        protection=(
            "Each judged output is compared with the reference for the values of that very call. A constant is found "
            "as `output.wrong_values`."
        ),
        severity=ALWAYS,
        incidents=(met.DEFENSES,),
        predecessor="Output / Constant Output",
    ),
    Issue(
        id="output.stale_cache",
        title="The output of earlier inputs",
        happens="A result computed once is kept and returned again although the inputs have changed since.",
        guard="fresh_values",
        protection="Inputs are refreshed before every sample, so an old result is found as `output.wrong_values`.",
        severity=ALWAYS,
        incidents=(met.CACHED_OUTPUTS, met.COPY_REPLAY),
        predecessor="Output / Stale Cache",
    ),
    Issue(
        id="output.approximation_drift",
        title="An estimate in the place of the result",
        happens="The code samples, truncates or approximates, and a wide tolerance accepts the estimate.",
        guard="judged_output",
        protection=(
            "Errors against a float64 reference, of the whole output and of each element, are held to a budget that "
            "follows from the dtype and the length of the reductions. A variant that approximates by design declares "
            "itself lossy and is held to a metric and a budget of its own."
        ),
        severity=ALWAYS,
        predecessor="Output / Approximation Drift",
    ),
    Issue(
        id="output.nan_values",
        title="NaN passes for an answer",
        happens='Comparisons with NaN are false: a check "fail if the error exceeds the tolerance" accepts NaN.',
        guard="judged_output",
        protection="NaN must stand exactly where the reference has NaN, before any error is computed.",
        severity=ALWAYS,
        incidents=(met.ALL_NAN, met.EXPLOIT_SUITE),
        predecessor="Output / Invalid Values (NaN)",
    ),
    Issue(
        id="output.inf_values",
        title="Infinities that hide what was computed",
        happens="Values overflow, and infinity is compared with infinity; every code that overflows is then right.",
        guard="judged_output",
        protection=(
            "An infinity counts as right only where the reference has the same one. `aiperf lint` refuses a workload "
            "whose own answers are not finite."
        ),
        severity=ALWAYS,
        predecessor="Output / Invalid Values (Inf)",
    ),
    Issue(
        id="output.invalid_ground_truth",
        title="The expected answer is itself wrong",
        happens="Labels or stored reference outputs have errors, so that right code fails or wrong code passes.",
        guard="task_lint",
        protection=(
            "Nothing expected is stored: the judge computes it in float64 from the values of the call. `aiperf lint` "
            "shows that the reference agrees with itself in its own precision, repeats itself, and leaves its inputs "
            "alone."
        ),
        severity=ALWAYS,
        incidents=(met.IMAGENET_LABELS, met.MMLU_ERRORS),
        predecessor="Output / Invalid Ground Truth",
    ),
    Issue(
        id="output.shape_mismatch",
        title="An output of another shape",
        happens="The output has fewer elements, or a shape that broadcasts and so agrees with everything.",
        guard="judged_output",
        protection=(
            "Structure and shape must be exactly those of the reference's answer before any value is compared. "
            "Anything else is `output.wrong_form`."
        ),
        severity=ALWAYS,
        predecessor="Output / Shape Mismatch",
    ),
    Issue(
        id="output.dtype_mismatch",
        title="An output of another dtype",
        happens="Half the bytes are written, and a checker that casts both sides before it compares does not notice.",
        guard="judged_output",
        protection="The dtype must be the reference's before anything is cast; else it is `output.wrong_form`.",
        severity=ALWAYS,
        incidents=(met.DEFENSES,),
        predecessor="Output / Dtype Mismatch",
    ),
    Issue(
        id="output.denormalized_values",
        title="Subnormal numbers on one side only",
        happens=(
            "Arithmetic on subnormal numbers can be many times slower. A side that flushes them to zero, or that is "
            "spared such values, does other work."
        ),
        guard="global_state",
        protection="All get the same values, and a worker's flush-to-zero mode is compared before and after its calls.",
        predecessor="Output / Denormalized Values",
    ),
    Issue(
        id="output.uninitialized_memory",
        title="Garbage that happens to be right",
        happens="A part of the output is never written; its memory still holds the right answer of an earlier call.",
        guard="poison",
        protection=(
            "The last output is filled with the bits of NaN before it goes back to the allocator, which hands the same "
            "block out again. What is not written is then wrong for sure."
        ),
        severity=ALWAYS,
        predecessor="Output / Uninitialized Memory",
    ),
    Issue(
        id="output.wrong_values",
        title="The answer is wrong",
        happens="A judged output differs from the reference by more than the error budget, for whatever reason.",
        guard="judged_output",
        protection=(
            "The size of the error and what was allowed stand in the finding, and the implementation leaves the run. "
            "Its samples stay in the bundle."
        ),
        severity=ALWAYS,
    ),
    Issue(
        id="output.wrong_form",
        title="The answer is not of the required form",
        happens="The output has another structure, type, dtype, shape, layout or device than the reference's answer.",
        guard="judged_output",
        protection="Form comes before values: plain dense tensors on the right device, in the reference's structure.",
        severity=ALWAYS,
        incidents=(met.LAZY_OUTPUT,),
    ),
    Issue(
        id="output.quality_below_budget",
        title="A lossy variant loses more than it declared",
        happens="A variant that trades accuracy for speed on purpose gives up more than its benchmark allows.",
        guard="judged_output",
        protection="The metric uses the same judged outputs; a value beyond the budget makes the row INVALID.",
        severity=ALWAYS,
    ),
    Issue(
        id="output.zeros_within_tolerance",
        title="Zeros are close enough",
        happens="The right values are so small, or the tolerance so wide, that zeros pass, as for a long softmax.",
        guard="task_lint",
        protection=(
            "Errors are relative to the reference's own size. `aiperf lint` hands zeros, a constant, the input and "
            "other worthless outputs to the benchmark's own judge, and each must be refused."
        ),
        severity=ALWAYS,
        incidents=(met.ZEROS_PASS, met.NO_OP_TASKS),
    ),
    Issue(
        id="output.pass_through",
        title="The input is handed back",
        happens="The code returns its input, or a copy, which has the right shape, dtype and device.",
        guard="judged_output",
        protection=(
            "Values are compared and not only metadata. `aiperf lint` shows for every benchmark that its own inputs "
            "would be refused as outputs."
        ),
        severity=ALWAYS,
        incidents=(met.FIELD_GUIDE,),
    ),
    Issue(
        id="output.partial_output",
        title="Only a part of the output is computed",
        happens="Some rows, heads or tiles are computed and the rest is left, filled in cheaply or never written.",
        guard="judged_output",
        protection=(
            "Every element of a judged output is compared. Poison in kept and in recycled memory makes sure that the "
            "parts left out hold no old answer."
        ),
        severity=ALWAYS,
    ),
    Issue(
        id="output.agrees_with_all",
        title="An object that equals everything",
        happens=(
            "The output is a tensor subclass, or an object with overridden comparison, that answers every question "
            "about its closeness with yes."
        ),
        guard="judged_output",
        protection=(
            "Only the exact types `torch.Tensor` and `torch.nn.Parameter` are taken. The bytes are copied to the "
            "judge, whose comparison runs in another process and on tensors of its own."
        ),
        severity=ALWAYS,
        incidents=(met.LAZY_OUTPUT, met.METR),
    ),
    Issue(
        id="output.data_shortcut",
        title="Data on which a shortcut is right",
        happens="Padded, diagonal, constant or positive data allow a shortcut that is wrong in general.",
        guard="task_lint",
        protection=(
            "`aiperf lint` checks that outputs for zeroed parts of the inputs and for other seeds are told apart from "
            "the right one. Workloads draw values of full rank without structure to exploit, unless they declare it."
        ),
        severity=ALWAYS,
    ),
)

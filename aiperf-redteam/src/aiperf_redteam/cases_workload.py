"""Cases of the issues of workloads."""

from aiperf_core.validity.cases import Case
from aiperf_redteam.cases_output import pair

CASES: tuple[Case, ...] = (
    *pair("workload.precision_mismatch", "workload_elements:table_of_halves", "workload_elements:recurrence", ("cpu",)),
    *pair("workload.precision_mismatch", "workload:narrowed", "workload:widened", ("cuda",)),
    *pair(
        "workload.backend_precision_policy_drift",
        "workload_policy:switched",
        "workload_policy:switched_back",
        ("cpu",),
        gains="silence",
    ),
    *pair(
        "workload.backend_precision_policy_drift",
        "workload_policy:switched",
        "workload_policy:switched_back",
        ("cuda",),
    ),
    *pair("workload.undeclared_shortcuts", "workload_attention:some_keys", "workload_attention:keys_reversed"),
    *pair("workload.early_exit", "workload_steps:some_steps", "workload_steps:until_at_rest"),
    *pair("workload.batch_shrinking", "workload:one_sample", "workload:small_batches"),
    *pair("workload.sequence_truncation", "workload_attention:first_positions", "workload_attention:all_keys_in_parts"),
    *pair("workload.hidden_downsampling", "workload:at_a_quarter", "workload:four_phases"),
    *pair("workload.sparsity_mismatch", "workload:pruned", "workload:without_zeros"),
    *pair("workload.attention_mask_mismatch", "workload_attention:neighbours", "workload_attention:mask_of_zeros"),
    *pair("workload.kv_cache_size_mismatch", "workload_kv:youngest", "workload_kv:in_pages"),
    *pair("workload.train_test_overlap", "replay_calls:learnt_by_heart", "replay_calls:tuned_on_first_values"),
    *pair("workload.size_dispatch", "workload:exact_if_small", "workload:two_ways"),
    *pair("workload.low_rank_operand", "workload:low_rank", "workload:full_rank"),
    *pair("workload.narrow_accumulator", "workload_sums:narrow_sum", "workload_sums:in_parts"),
)

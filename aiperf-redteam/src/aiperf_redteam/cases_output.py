"""Cases of the issues of outputs."""

from collections.abc import Iterator

from aiperf_core.validity.cases import Case

BOTH = ("cpu", "cuda")


def pair(
    issue: str,
    attack: str,
    look_alike: str,
    devices: tuple[str, ...] = BOTH,
    gains: str = "verdict",
    tier: str = "quick",
    needs: tuple[str, ...] = (),
) -> Iterator[Case]:
    """An attack and its look-alike, each as `module:implementation` of this package, on each device."""
    for device in devices:
        for name in (attack, look_alike):
            module, _, implementation = name.partition(":")
            yield Case(
                issue=issue,
                module=f"aiperf_redteam.{module}",
                implementation=implementation,
                device=device,
                honest=name == look_alike,
                gains=gains,
                tier=tier,
                needs=needs,
            )


CASES: tuple[Case, ...] = (
    *pair("output.constant_output", "output:zeros", "output:added_to_zeros"),
    *pair("output.stale_cache", "output:first_product", "output:kept_memory"),
    *pair("output.approximation_drift", "output:estimated", "output:rounded_once"),
    *pair("output.nan_values", "output:not_numbers", "output:nan_at_first"),
    *pair("output.inf_values", "output:infinities", "output:infinite_bounds"),
    *pair("output.invalid_ground_truth", "output_truth:nowhere", "workload_elements:recurrence", ("cpu",)),
    *pair("output.shape_mismatch", "output:one_row", "output:batch_of_one"),
    *pair(
        "output.dtype_mismatch", "workload_elements:halves_from_table", "workload_elements:through_float64", ("cpu",)
    ),
    *pair("output.dtype_mismatch", "output:in_halves", "output:rounded_once", ("cuda",)),
    *pair(
        "output.denormalized_values",
        "output_subnormal:flushed",
        "output_subnormal:in_one_step",
        ("cpu",),
        gains="silence",
    ),
    *pair("output.uninitialized_memory", "memory:rest_unwritten", "memory:all_written"),
    *pair("output.wrong_values", "output:of_elements", "output:in_two_sums"),
    *pair("output.wrong_form", "output:in_a_tuple", "output:by_columns"),
    *pair("output.quality_below_budget", "output:thinned", "output:narrow_as_declared"),
    *pair("output.zeros_within_tolerance", "output_small:zeros", "output:narrow_as_declared"),
    *pair("output.pass_through", "output:copy_of_a", "output:written_over_a_copy"),
    *pair("output.partial_output", "output:first_rows", "output:all_rows_in_blocks"),
    *pair("output.agrees_with_all", "output:close_to_all", "output:named_on_the_way"),
    *pair("output.data_shortcut", "output_padding:without_padding", "workload:without_zeros"),
)

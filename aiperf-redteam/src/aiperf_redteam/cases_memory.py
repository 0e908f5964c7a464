"""Cases of the issues of memory."""

from aiperf_core.validity.cases import Case
from aiperf_redteam.cases_output import pair

MEMORY = "aiperf_redteam.memory"

CASES: tuple[Case, ...] = (
    *pair("memory.pre_allocated_output", "memory:filled_before", "memory:written_each_time"),
    *pair(
        "memory.input_output_aliasing",
        "memory_alias:view_of_input",
        "memory_alias:view_of_own_memory",
        tier="standard",
    ),
    *pair("memory.pinned_memory_timing", "memory_pinned:not_waited_for", "memory_pinned:waited_for", ("cuda",)),
    *pair("memory.memory_pool_reuse", "memory_pool:empties_pool", "memory_pool:keeps_multiples", ("cpu",)),
    *pair("memory.fragmentation_effects", "memory_pool:cuts_heap", "memory_pool:keeps_multiples", ("cpu",)),
    *pair("memory.recycled_reference", "memory:as_allocated", "memory:all_written", ("cpu",)),
    *(
        Case(issue=issue, module=MEMORY, implementation=implementation, device="cuda", honest=True)
        for issue, implementation in (
            ("memory.memory_pool_reuse", "own_pool"),
            ("memory.fragmentation_effects", "own_pool"),
            ("memory.recycled_reference", "all_written"),
        )
    ),
    *pair("memory.page_fault_timing", "memory:forgotten_page", "memory:mapped_page", ("cpu",), gains="silence"),
    *pair(
        "memory.swap_interference",
        "environment:swaps_out",
        "environment:keeps_memory",
        ("cpu",),
        gains="silence",
        needs=("swap",),
    ),
    *pair("memory.input_mutation", "memory_table:sorted_in_place", "memory_table:sorted_copy"),
    *pair("memory.answer_in_input", "memory:in_the_padding", "memory:padding_of_its_own"),
)

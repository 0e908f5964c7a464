"""Cases of the issues of replay."""

from aiperf_core.validity.cases import Case
from aiperf_redteam.cases_output import pair

CASES: tuple[Case, ...] = (
    *pair("replay.by_object", "replay:by_same_object", "replay:view_of_same_object"),
    *pair("replay.by_pointer", "replay:by_pointer", "replay:aligned_or_not"),
    *pair("replay.by_version", "replay:by_version", "replay:checks_version"),
    *pair("replay.by_shape", "replay:by_shape", "replay:memory_by_shape"),
    *pair("replay.by_value", "replay:by_value", "replay:square_or_product", gains="silence", tier="standard"),
    *pair("replay.within_sample", "replay_short:first_of_sample", "replay_short:room_at_first", ("cpu",)),
    *pair("replay.by_fingerprint", "replay:by_few_values", "replay:looks_at_few_values"),
    *pair("replay.hidden_state", "replay:in_default_argument", "replay:room_in_default_argument"),
    *pair("replay.from_disk", "replay:from_disk", "replay:tuned_from_disk", ("cpu",)),
    *pair("replay.by_call_count", "replay_calls:first_calls_only", "replay_calls:two_buffers_in_turn"),
    *pair("replay.phase_detection", "replay_calls:if_checked", "replay_calls:looks_around"),
    *pair("replay.poison_probe", "replay_calls:unless_poisoned", "replay_calls:again_if_overflown"),
    *pair("replay.previous_result", "replay_calls:one_behind", "replay_calls:keeps_the_last"),
    *pair("replay.super_batch", "replay_calls:all_at_once", "replay_calls:halves_at_once"),
    *pair("replay.random_skip", "replay_calls:one_in_a_thousand", "replay_calls:one_way_or_another"),
    *pair("replay.known_seed", "replay_calls:guessed_seeds", "replay_calls:shuffled_by_seed"),
)

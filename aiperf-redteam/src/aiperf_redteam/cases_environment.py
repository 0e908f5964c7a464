"""Cases of the issues of environment. What only the machine itself can show lies in the folder `recordings`."""

from aiperf_core.validity.cases import Case
from aiperf_redteam.cases_leak import candidate
from aiperf_redteam.cases_output import pair

CONDITIONS = "aiperf_redteam.conditions"
ENVIRONMENT = "aiperf_redteam.environment"
LIBRARIES = "aiperf_redteam.environment_libraries"

CASES: tuple[Case, ...] = (
    Case(
        issue="environment.priority_elevation",
        module=ENVIRONMENT,
        implementation="goes_first",
        gains="silence",
        needs=("processors>=2",),
    ),
    Case(issue="environment.priority_elevation", module=ENVIRONMENT, implementation="makes_way", honest=True),
    *candidate(
        "environment.borrowed_processors",
        "borrows_processors",
        "binds_threads",
        held_by=("system_calls",),
        needs=("processors>=2",),
    ),
    # No look-alike: on a busy machine it would rightly be flagged.
    Case(
        issue="environment.background_load",
        module=CONDITIONS,
        implementation="loads_machine",
        gains="silence",
        alone=True,
    ),
    Case(issue="environment.driver_version_mismatch", module=LIBRARIES, implementation="newer_driver", gains="silence"),
    Case(issue="environment.driver_version_mismatch", module=LIBRARIES, implementation="same_driver", honest=True),
    Case(
        issue="environment.library_version_mismatch", module=LIBRARIES, implementation="newer_library", gains="silence"
    ),
    Case(issue="environment.library_version_mismatch", module=LIBRARIES, implementation="other_library", honest=True),
    Case(issue="environment.process_settings", module=ENVIRONMENT, implementation="sets_process", gains="silence"),
    Case(issue="environment.process_settings", module=ENVIRONMENT, implementation="without_gradients", honest=True),
    Case(
        issue="environment.device_mismatch",
        module=ENVIRONMENT,
        implementation="elsewhere_than_declared",
        device="cuda",
        gains="silence",
    ),
    Case(
        issue="environment.device_mismatch",
        module=ENVIRONMENT,
        implementation="asks_about_another",
        device="cuda",
        honest=True,
    ),
    *pair(
        "environment.clock_drift",
        "contexts:draws_power",
        "contexts:in_halves",
        ("cuda",),
        gains="silence",
    ),
    *pair(
        "environment.frequency_boost",
        "contexts:draws_power",
        "contexts:in_halves",
        ("cuda",),
        gains="silence",
    ),
    *pair(
        "environment.power_throttling",
        "contexts:draws_power",
        "contexts:in_halves",
        ("cuda",),
        gains="silence",
    ),
    *pair(
        "environment.shared_gpu",
        "contexts:shares_gpu",
        "contexts:in_halves",
        ("cuda",),
        gains="silence",
    ),
    *pair(
        "environment.numa_inconsistency",
        "environment:other_node",
        "environment:same_node",
        ("cpu",),
        gains="silence",
        needs=("numa>=2",),
    ),
)

"""Cases of the issues of environment. Those of what the machine is, and of what it does beside blocks, lie in `recorded`."""

from aiperf_core.validity.cases import Case

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
)

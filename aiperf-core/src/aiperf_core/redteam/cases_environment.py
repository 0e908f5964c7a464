"""Cases of the issues of environment. Those of what the machine is, and of what it does beside blocks, lie in `recorded`."""

from attrs import evolve

from aiperf_core.redteam.cases import Case, Recorded
from aiperf_core.validity.evidence import Census, Evidence

ENVIRONMENT = "aiperf_core.redteam.environment"

CASES: tuple[Case, ...] = (
    Case(
        issue="environment.priority_elevation",
        module=ENVIRONMENT,
        implementation="goes_first",
        gains="silence",
        needs=("processors>=2",),
    ),
    Case(issue="environment.priority_elevation", module=ENVIRONMENT, implementation="makes_way", honest=True),
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


def working_on(ours: str, theirs: str | None) -> Evidence:
    """Processes that the driver lists on these GPUs; None where it lists none."""

    def side(role: str, gpu: str | None) -> Evidence:
        looks = [Census(gpus=None if gpu is None else (gpu,))] * 4
        return Evidence(name=role, role=role, device="cuda", clock="device", cache="cold", census=looks)

    return evolve(side("variant", ours), baseline=side("baseline", theirs))


RECORDED: tuple[Recorded, ...] = (
    Recorded(
        issue="environment.device_mismatch",
        guilty=lambda: working_on("GPU-5d2c", "GPU-9a41"),
        # In a container the driver lists one of the processes, and not the other.
        honest=lambda: working_on("GPU-9a41", None),
    ),
)

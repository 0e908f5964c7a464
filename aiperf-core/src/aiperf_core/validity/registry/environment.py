"""Environment: the machine is another one for the two sides."""

from aiperf_core.validity.issues import ALWAYS, NOTE, SOFT, Issue
from aiperf_core.validity.registry import incidents as met

ISSUES = (
    Issue(
        id="environment.device_mismatch",
        title="Another GPU than the one declared",
        happens="The work runs on another device than the result names.",
        guard="process_census",
        protection=(
            "Name and UUID of the GPU are read by the supervisor through NVML, and so is on which GPU each worker has "
            "its context. Outputs must lie on the device of the target."
        ),
        needs=("cuda", "nvml", "gpus>=2"),
        predecessor="Environment / Device Mismatch",
    ),
    Issue(
        id="environment.frequency_boost",
        title="Clocks raised for one side",
        happens="Clocks are raised or locked while one implementation runs, or only for the benchmark.",
        guard="conditions",
        protection=(
            "Clocks are read beside every block and summarised for each row. A median that differs from the baseline's "
            "by more than 5 % is told as `environment.clock_drift`."
        ),
        needs=("nvml",),
        severity=SOFT,
        predecessor="Environment / Frequency Boost",
        owed="a machine with a CUDA GPU whose clocks change under load",
    ),
    Issue(
        id="environment.priority_elevation",
        title="A process that goes first",
        happens="One side raises its priority, changes its scheduling class or keeps processors to itself.",
        guard="process_census",
        protection=(
            "The supervisor reads priority, scheduling class and affinity of every worker from the kernel, during the "
            "run. Processes that are not trusted are not allowed to raise them."
        ),
        needs=("linux",),
        predecessor="Environment / Priority Elevation",
    ),
    Issue(
        id="environment.borrowed_processors",
        title="More processors than the workload has",
        happens="A thread moves to other processors within a call, and is back on its own before it ends.",
        guard="sandbox",
        protection="Confined code stays on the processors that the target gives it. Requests to move change nothing.",
        needs=("linux",),
        severity=ALWAYS,
    ),
    Issue(
        id="environment.memory_overcommit",
        title="Memory that does not exist",
        happens="The kernel promises more memory than there is, and a measurement shows the promise and not the use.",
        guard="machine",
        protection=(
            "The kernel's policy is noted. What counts as memory of a row is what was resident or held by the GPU's "
            "allocator, never what was only reserved."
        ),
        needs=("linux",),
        severity=NOTE,
        predecessor="Environment / Memory Overcommit",
    ),
    Issue(
        id="environment.numa_inconsistency",
        title="Memory near for one side, far for the other",
        happens="Processes run on another node than the one their memory lies on, by chance and not alike.",
        guard="machine",
        protection="Workers' nodes are recorded, inputs are shared pages, and fresh processes place the rest anew.",
        needs=("linux",),
        severity=SOFT,
        predecessor="Environment / NUMA Inconsistency",
        owed="a machine with two NUMA nodes",
    ),
    Issue(
        id="environment.cpu_governor_mismatch",
        title="The processor's clock policy differs",
        happens="A power-saving governor changes the clock during short calls, or differs between two runs.",
        guard="machine",
        protection="The manifest has governor and clock limits, blocks have clocks, and comparisons name a difference.",
        needs=("linux", "bare_metal"),
        severity=NOTE,
        predecessor="Environment / CPU Governor Mismatch",
        owed="a machine without a hypervisor whose governor is slow",
    ),
    Issue(
        id="environment.thermal_throttling",
        title="Heat holds the clocks down",
        happens="The device gets hot during the run and slows down, which hits what is measured later.",
        guard="conditions",
        protection=(
            "Throttling is read beside every block. From one block in twenty on it is told with its share and the "
            "highest temperature; taking turns spreads what remains over both sides."
        ),
        severity=SOFT,
        predecessor="Environment / Thermal Throttling",
        owed="a machine that gets too hot under load",
    ),
    Issue(
        id="environment.power_limit_difference",
        title="Another power limit",
        happens="Results from devices with different limits of power are compared as if the devices were equal.",
        guard="machine",
        protection="The manifest has the limit, kept ceilings end with it, and comparisons name a difference.",
        needs=("nvml",),
        severity=SOFT,
        predecessor="Environment / Power Limit Difference",
        owed="a machine with a CUDA GPU whose limit of power was lowered",
    ),
    Issue(
        id="environment.driver_version_mismatch",
        title="Another driver",
        happens="A difference between two drivers passes for one between two implementations.",
        guard="versions",
        protection=(
            "Both sides of a speedup run in one session on one machine. The supervisor reads from the kernel which "
            "file of the "
            "driver (libcuda) each worker has mapped, and compares the sides."
        ),
        severity=SOFT,
        predecessor="Environment / Driver Version Mismatch",
    ),
    Issue(
        id="environment.library_version_mismatch",
        title="Other libraries",
        happens="The two sides load different versions of a library, and the better one wins.",
        guard="versions",
        protection=(
            "Workers are forks of one server that has the libraries loaded. The supervisor reads from the kernel which "
            "libraries "
            "each worker has mapped; another build of one that the baseline or the server has is a finding."
        ),
        severity=SOFT,
        predecessor="Environment / Library Version Mismatch",
    ),
    Issue(
        id="environment.container_resource_limits",
        title="A container has less than its machine",
        happens="A control group limits processors or memory, so that the result is that of the limit.",
        guard="machine",
        protection="The limits are recorded. Where they stop processes, that is told as `environment.cpu_quota`.",
        needs=("linux",),
        severity=SOFT,
        predecessor="Environment / Container Resource Limits",
    ),
    Issue(
        id="environment.virtualization_overhead",
        title="A hypervisor in between",
        happens="A virtual machine adds costs of its own, which vary with its neighbours and not with the code.",
        guard="machine",
        protection=(
            "The hypervisor is named in the manifest, and the time that it took away is read beside every block. By "
            "default it is a warning, since many GPUs can only be had under one."
        ),
        needs=("linux",),
        severity=SOFT,
        predecessor="Environment / Virtualization Overhead",
    ),
    Issue(
        id="environment.power_throttling",
        title="A limit of power holds the clocks down",
        happens="The device reaches its limit of power and slows down, depending on values and on earlier work.",
        guard="conditions",
        protection="Throttling is read beside every block; where energy is counted, the row has it for a comparison.",
        severity=SOFT,
        owed="a machine with a CUDA GPU that reaches its limit of power",
    ),
    Issue(
        id="environment.cpu_quota",
        title="The container's quota stops the processes",
        happens="The control group has used up its processor time, and its processes stop until the next period.",
        guard="conditions",
        protection=(
            "The counters of all groups with a limit, of either version, are read beside every block; from one block "
            "in twenty on it is a finding."
        ),
        needs=("linux",),
        severity=SOFT,
    ),
    Issue(
        id="environment.background_load",
        title="Others keep the machine busy",
        happens="Other processes or other guests of the hypervisor take processors, caches and bandwidth.",
        guard="conditions",
        protection=(
            "The processor time of all others, and what the hypervisor took, are read beside every block and told when "
            "their median exceeds 5 % and 1 %. Taking turns lets a load hit all sides alike."
        ),
        needs=("linux",),
        severity=SOFT,
        predecessor="Statistical / Background Process Noise",
    ),
    Issue(
        id="environment.shared_gpu",
        title="Strangers on the same GPU",
        happens="Another process uses the GPU, or has memory on it, while it is measured.",
        guard="conditions",
        protection="NVML lists the processes of the GPU; all that are not of the run are named in the finding.",
        needs=("nvml",),
        severity=SOFT,
        owed="a machine with a CUDA GPU whose driver lists processes",
    ),
    Issue(
        id="environment.clock_drift",
        title="Other clocks than the baseline's",
        happens="The GPU's clocks differed between an implementation's blocks and the baseline's.",
        guard="conditions",
        protection=(
            "The medians of the clocks beside both sides' blocks are compared, and a difference of more than 5 % is "
            "told with both figures."
        ),
        needs=("nvml",),
        severity=SOFT,
        incidents=(met.SINKING_CLOCKS,),
        owed="a machine with a CUDA GPU whose clocks change under load",
    ),
    Issue(
        id="environment.process_settings",
        title="Settings of the process on one side only",
        happens=(
            "An implementation changes what its whole process is set to: threads, default dtype or device, grad mode, "
            "cuDNN's "
            "search, signal handlers, the garbage collector, priority. Others are measured without."
        ),
        guard="global_state",
        protection=(
            "The settings of a worker's process are noted before the implementation's code is imported and after its "
            "last "
            "call, and compared with each other and with those of the baseline's process."
        ),
        severity=SOFT,
    ),
)

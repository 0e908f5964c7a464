"""The rules of the lint: each with its reason and with what to write instead."""

from attrs import frozen


@frozen
class Rule:
    """A rule.

    id: `KIND.NAME`.
    reason: why it costs performance, or fails.
    write: what to write instead.
    """

    id: str
    reason: str
    write: str

    @property
    def kind(self) -> str:
        """The kind of file that it is for."""
        return self.id.partition(".")[0]


@frozen
class Mark:
    """A place that breaks a rule.

    rule: the rule's id.
    line: from 1.
    text: what stands there, in a few words.
    """

    rule: str
    line: int
    text: str


_TAG = "the image changes under the same name, so figures of two days are of two programs"
_INTERLEAVE = "pages alternate between the nodes, so about half of all accesses are remote"

RULES = {
    rule.id: rule
    for rule in (
        Rule("dockerfile.base_tag", _TAG, "a version: FROM NAME:VERSION, or a digest: FROM NAME@sha256:..."),
        Rule(
            "dockerfile.devel_base",
            "the last stage has compilers and headers, gigabytes that each node pulls before the program starts",
            "a stage that builds on the devel image, and a last stage FROM the runtime image with COPY --from",
        ),
        Rule(
            "dockerfile.driver",
            "the driver's libraries come from the host; those of the image hide them and fit one driver only",
            "no driver package; the NVIDIA container runtime mounts the host's",
        ),
        Rule(
            "dockerfile.apt_lists",
            "the lists of packages stay in the layer, which each node pulls",
            "apt-get update, install and rm -rf /var/lib/apt/lists/* in one RUN",
        ),
        Rule(
            "dockerfile.apt_name",
            "Debian and Ubuntu have no package of this name, so the build fails",
            "libtcmalloc-minimal4 for tcmalloc, libjemalloc2 for jemalloc",
        ),
        Rule(
            "dockerfile.pip_cache",
            "pip keeps all that it downloads in the layer, which each node pulls",
            "pip install --no-cache-dir, or RUN --mount=type=cache,target=/root/.cache/pip",
        ),
        Rule(
            "dockerfile.unpinned",
            "each build takes the version of its day, and results of two versions cannot be compared",
            "the version: pip install torch==VERSION, or a file of constraints (-c)",
        ),
        Rule(
            "dockerfile.copy_order",
            "each change of the code repeats the installation of all packages that follows",
            "COPY the file of requirements and install, and COPY the code after that",
        ),
        Rule(
            "dockerfile.arch_list",
            "kernels are compiled for one architecture, and no PTX is kept: other GPUs cannot run them",
            'all architectures that run the image, the last with PTX: TORCH_CUDA_ARCH_LIST="8.0 9.0 10.0+PTX"',
        ),
        Rule(
            "dockerfile.shell_form",
            "a shell runs the program and takes its signals: a stop gives it no time to save",
            'the form of a list: ENTRYPOINT ["python", "train.py"]',
        ),
        Rule(
            "dockerfile.interleave",
            _INTERLEAVE,
            "no policy in the image; aiperf ch03 bind --node N -- COMMAND per process",
        ),
        Rule(
            "slurm.late_directive",
            "sbatch reads directives up to the first command; this one is a comment",
            "all #SBATCH lines before the first command",
        ),
        Rule(
            "slurm.cpus",
            "a task gets one CPU by default, which loaders, launches and the communication then share",
            "#SBATCH --cpus-per-task=N, the node's CPUs divided by its GPUs",
        ),
        Rule(
            "slurm.srun_cpus",
            "since Slurm 22.05 srun does not take --cpus-per-task from the job: its tasks get one CPU",
            "srun --cpus-per-task=$SLURM_CPUS_PER_TASK, or export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK",
        ),
        Rule(
            "slurm.cpu_bind",
            "tasks may run on all CPUs of the job, also on those far from their memory and their GPU",
            "srun --cpu-bind=cores",
        ),
        Rule(
            "slurm.threads",
            "more threads than CPUs: threads that wait for each other wait for a CPU (ch03.thread_oversubscription)",
            "export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK",
        ),
        Rule(
            "slurm.launchers",
            "each task starts a launcher, and each launcher a rank for every GPU: several ranks share a GPU",
            "#SBATCH --ntasks-per-node=1 for torchrun",
        ),
        Rule(
            "slurm.time",
            "the job has the partition's default limit, and cannot fill a gap before larger jobs",
            "#SBATCH --time=HH:MM:SS, a little more than the job needs",
        ),
        Rule("slurm.interleave", _INTERLEAVE, "srun --cpu-bind=cores --mem-bind=local"),
        Rule("kubernetes.image_tag", _TAG, "a version: image: NAME:VERSION, or a digest: image: NAME@sha256:..."),
        Rule(
            "kubernetes.gpu_limit",
            "a GPU is given by its limit, a whole number, and a request must equal it: the API refuses the pod",
            "resources.limits with nvidia.com/gpu: N, and no other request of it",
        ),
        Rule(
            "kubernetes.qos",
            "requests of CPU and memory that are not its limits give no CPUs of its own, and others evict it first",
            "cpu and memory in resources.limits, and equal values or none in resources.requests",
        ),
        Rule(
            "kubernetes.whole_cpus",
            "the kubelet gives CPUs of its own to whole numbers only; a part is a quota that stops threads",
            'a whole number: cpu: "8"',
        ),
        Rule(
            "kubernetes.shm",
            "/dev/shm has 64 MiB: workers of loaders and NCCL fail, or take slower ways",
            "a volume emptyDir: {medium: Memory, sizeLimit: SIZE}, mounted at /dev/shm",
        ),
        Rule(
            "kubernetes.shm_size",
            "a volume in memory without a limit may take all memory of the pod, which is then killed",
            "emptyDir: {medium: Memory, sizeLimit: SIZE}",
        ),
        Rule(
            "kubernetes.kubelet_field",
            "this is a setting of the kubelet, and no field of a pod: it is ignored or refused",
            "topologyManagerPolicy and cpuManagerPolicy in the KubeletConfiguration of the node",
        ),
        Rule(
            "kubernetes.threads",
            "more threads than CPUs: threads that wait for each other wait for a CPU (ch03.thread_oversubscription)",
            "env OMP_NUM_THREADS with the CPUs of the limit, divided by the processes of the container",
        ),
        Rule(
            "kubernetes.memlock",
            "RDMA locks its buffers in memory, which the container may not do",
            "securityContext: {capabilities: {add: [IPC_LOCK]}}",
        ),
        Rule(
            "kubernetes.all_gpus",
            "the container sees all GPUs of the node, also those that other pods were given",
            "no such setting; resources.limits with nvidia.com/gpu: N",
        ),
        Rule(
            "kubernetes.interleave",
            _INTERLEAVE,
            "no policy in the command; topologyManagerPolicy: single-numa-node of the node",
        ),
    )
}

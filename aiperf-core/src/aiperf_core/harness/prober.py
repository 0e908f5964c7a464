"""A process that looks at a device and measures its ceilings; the supervisor itself never touches torch."""

from aiperf_core.devices import ceilings
from aiperf_core.harness.channel import Channel, Message
from aiperf_core.harness.service import Service


class Prober(Service):
    """The handler of a prober's requests."""

    def do_cuda(self) -> Message:
        """Whether torch sees a GPU here, which, and how many; `reason` says why not."""
        import torch

        if torch.version.cuda is None:
            return {"gpus": 0, "reason": f"the installed torch {torch.__version__} is built without CUDA"}
        if not torch.cuda.is_available():
            return {"gpus": 0, "reason": f"torch {torch.__version__} finds no usable NVIDIA GPU"}
        major, minor = torch.cuda.get_device_capability()
        return {
            "gpus": torch.cuda.device_count(),
            "gpu": torch.cuda.get_device_name(),
            "arch": major * 10 + minor,
            "memory_bytes": torch.cuda.get_device_properties().total_memory,
        }

    def do_ceilings(self, device: str) -> Message:
        """Measure what the device reaches."""
        return ceilings.measure(device)


def main(channel: Channel) -> None:
    """Serve a supervisor."""
    Prober(channel).serve()

"""A target whose workload or reference has the fault that the size `fault` chooses. Without one it is sound."""

import torch

from aiperf_core import Benchmark, Cost, exact

bench = Benchmark(goal="speed")

SOUND = 0
INPUTS_NOT_A_DICT = 1
STATIC_NOT_A_DICT = 2
INPUT_OF_ODD_TYPE = 3
SIZES_FOLLOW_THE_SEED = 4
NESTED_NUMBER_FOLLOWS_THE_SEED = 5
DTYPE_FOLLOWS_THE_SEED = 6
INPUT_NAMED_LIKE_A_SIZE = 7
INPUT_NAMED_LIKE_A_STATIC = 8
REFERENCE_CHANGES_INPUTS = 9
REFERENCE_CHANGES_STATICS = 10
REFERENCE_OF_ODD_TYPE = 11
ANSWER_FOLLOWS_THE_VALUES = 12
COST_BELOW_ZERO = 13


@bench.workload(smoke={"fault": SOUND})
def inputs(fault, device, generator):
    drawn = int(torch.randint(1, 1 << 30, (), generator=generator))
    values = {"a": torch.arange(5, device=device) * drawn}
    match fault:
        case 1:
            return [values]
        case 3:
            values["a"] = {"deep": [torch.eye(2).to_sparse()]}
        case 4:
            values["a"] = torch.zeros(drawn % 1009)
        case 5:
            values["extra"] = {"numbers": [drawn]}
        case 6:
            values["a"] = values["a"].to(torch.int32 if drawn % 2 else torch.int64)
        case 7:
            values["fault"] = 7
        case 8:
            values["weight"] = 8
    return values


@bench.static
def weights(fault):
    return None if fault == 2 else {"weight": torch.ones(5, dtype=torch.int64)}


@bench.reference(tolerance=exact)
def reference(a, weight, fault):
    match fault:
        case 9:
            a += 1
        case 10:
            weight += 1
        case 11:
            return {"answer": [object()]}
        case 12:
            return torch.ones(int(a.max()) % 1009)
    return a


@bench.cost
def cost(fault):
    return Cost(flops=-1 if fault == 13 else 1)


@bench.baseline(device="cpu", kind="naive")
def doubled(a):
    return a * 2

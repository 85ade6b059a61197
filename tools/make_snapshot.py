#!/usr/bin/env python3
"""Makes test/doctor/snapshot.pickle: a small memory snapshot in the format of torch.cuda.memory._dump_snapshot.

Six steps of a run whose peak, categories, gaps and leak are known, so that the test can ask for them by number:
  weights 64 MiB (before the trace), optimizer 128 MiB (from step 1 on), a step's activations 3 x 100 MiB, gradients 64 MiB
  without frames, and a loss of 2 MiB that a list keeps at every step.
"""
import argparse
import pathlib
import pickle

MIB = 1 << 20


def frame(filename, line, name):
    return {"filename": filename, "line": line, "name": name}


SITE = "/opt/venv/lib/python3.10/site-packages/"
MAIN = frame("/work/train.py", 90, "<module>")
CALL = frame(SITE + "torch/nn/modules/module.py", 1527, "_call_impl")
WEIGHTS = [frame(SITE + "torch/nn/modules/module.py", 1143, "convert"),
           frame(SITE + "torch/nn/modules/module.py", 820, "_apply"), MAIN]
OPTIMIZER = [frame(SITE + "torch/optim/adamw.py", 152, "_init_group"),
             frame(SITE + "torch/optim/adamw.py", 209, "step"), MAIN]
ACTIVATIONS = [[frame("/work/model.py", line, "forward"), CALL, MAIN] for line in (41, 42, 43)]
LEAK = [frame("/work/train.py", 71, "train_one_epoch"), MAIN]


class Device:
    def __init__(self):
        self.live, self.trace, self.next = {}, [], 0x7F0000000000

    def allocate(self, size, frames, traced=True):
        address, self.next = self.next, self.next + size
        self.live[address] = (size, frames)
        if traced:
            self.record("alloc", address, size, frames)
        return address

    def free(self, address):
        size, _ = self.live.pop(address)
        for action in ("free_requested", "free_completed"):
            self.record(action, address, size, [MAIN])

    def record(self, action, address, size, frames):
        self.trace.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": len(self.trace),
                           "frames": frames})


def make():
    device = Device()
    device.allocate(64 * MIB, WEIGHTS, traced=False)
    for step in range(6):
        kept = [device.allocate(100 * MIB, frames) for frames in ACTIVATIONS]
        device.allocate(2 * MIB, LEAK)
        gradient = device.allocate(64 * MIB, [])
        for address in kept:
            device.free(address)
        if step == 0:
            device.allocate(128 * MIB, OPTIMIZER)
        device.free(gradient)
    device.record("oom", 0, 500 * MIB, [MAIN])

    blocks = [{"address": address, "size": size + (512 if frames is LEAK else 0), "requested_size": size,
               "state": "active_allocated", "frames": frames} for address, (size, frames) in device.live.items()]
    blocks.append({"address": 0x7F1000000000, "size": 30 * MIB, "requested_size": 0, "state": "inactive", "frames": []})
    spare = [{"address": 0x7F2000000000, "size": 20 * MIB, "requested_size": 0, "state": "inactive", "frames": []}]

    def segment(blocks):
        return {"device": 0, "address": blocks[0]["address"], "total_size": sum(b["size"] for b in blocks), "stream": 0,
                "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "frames": [],
                "allocated_size": 0, "active_size": 0, "blocks": blocks}

    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": (1 << 64) - 1, "garbage_collection_threshold": 0.0,
                "expandable_segments": False}
    return {"segments": [segment(blocks), segment(spare)], "device_traces": [device.trace, []],
            "allocator_settings": settings, "external_annotations": []}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    default = pathlib.Path(__file__).resolve().parent.parent / "test" / "doctor" / "snapshot.pickle"
    parser.add_argument("--output", type=pathlib.Path, default=default)
    parser.add_argument("--protocol", type=int, default=4)
    options = parser.parse_args()
    options.output.write_bytes(pickle.dumps(make(), protocol=options.protocol))

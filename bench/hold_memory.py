#!/usr/bin/env python3
"""Takes and frees memory of the first GPU at random, sometimes all of it, until its standard input closes: the
neighbour of bench/random_budgets.py. Needs NVIDIA's driver and Python's standard library, nothing else.

  bench/hold_memory.py [--seed 1] [--least 0.2] [--most 0.8]      seconds between two changes

Prints "holding" when it begins, and one line of JSON at its end.
"""

import argparse
import ctypes
import json
import random
import select
import sys

SMALLEST = 2 << 20  # the driver allocates at least this much


class Driver:
    """Device memory through the driver's own library. Throws OSError if it fails."""

    def __init__(self):
        self._cuda = ctypes.CDLL("libcuda.so.1")
        self._call("cuInit", ctypes.c_uint(0))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def _call(self, name, *arguments, allowed=()):
        error = getattr(self._cuda, name)(*arguments)
        if error and error not in allowed:
            raise OSError(f"{name}: error {error}")
        return error

    def free_bytes(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def take(self, size):
        """Returns an address, or None if there is no room."""
        out_of_memory = 2
        address = ctypes.c_ulonglong()
        error = self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size), allowed=(out_of_memory,))
        return None if error else address.value

    def give(self, address):
        self._call("cuMemFree_v2", ctypes.c_ulonglong(address))


class Holder:
    def __init__(self, driver, generator):
        self._driver, self._random = driver, generator
        self._held = {}  # address: bytes
        self._full = False
        self.changes = self.times_full = self.most_bytes = 0

    def _take(self, size):
        address = self._driver.take(size) if size >= SMALLEST else None
        if address is not None:
            self._held[address] = size
        return address is not None

    def _give(self, addresses):
        for address in addresses:
            del self._held[address]
            self._driver.give(address)

    def change(self):
        """Takes a block, frees one, or takes all free memory and then frees everything, because other processes need it too."""
        self.changes += 1
        kind = self._random.random()
        if self._full:
            self._give(list(self._held))
            self._full = False
        elif kind < 0.2:
            size = self._driver.free_bytes()
            while size >= SMALLEST:
                if not self._take(size):
                    size //= 2
            self._full = True
            self.times_full += 1
        elif kind < 0.55 and self._held:
            self._give([self._random.choice(list(self._held))])
        else:
            self._take(int(self._driver.free_bytes() * self._random.random()))
        self.most_bytes = max(self.most_bytes, sum(self._held.values()))

    def give_all(self):
        self._give(list(self._held))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=float, default=0.2)
    parser.add_argument("--most", type=float, default=0.8)
    options = parser.parse_args()
    generator = random.Random(options.seed)
    holder = Holder(Driver(), generator)
    print("holding", flush=True)
    while not select.select([sys.stdin], [], [], generator.uniform(options.least, options.most))[0]:
        holder.change()
    holder.give_all()
    print(json.dumps({"changes": holder.changes, "times_full": holder.times_full, "most_bytes": holder.most_bytes}))


if __name__ == "__main__":
    main()

"""Facts about NVIDIA devices from the driver's own libraries. Python's standard library only."""

import contextlib
import ctypes
import sys
import threading
import time


def missing_device():
    """Returns the reason why no GPU can be used; None if there is one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "NVIDIA's driver is not installed (no libcuda.so.1)"
    error = driver.cuInit(0)
    if error:
        return f"NVIDIA's driver does not start (cuInit: error {error})"
    count = ctypes.c_int()
    error = driver.cuDeviceGetCount(ctypes.byref(count))
    if error or not count.value:
        return "NVIDIA's driver shows no device"
    return None


def add_device_options(parser):
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--emulated", action="store_true",
                        help="the GPU of --plimsoll is test/cuda_emulator's: to try this script where there is none")


def on_gpu(options):
    """Returns True if the device is a GPU; ends the script if one is requested and there is none."""
    if options.device == "cuda" and not options.emulated and missing_device():
        sys.exit(f"no GPU: {missing_device()}")
    return options.device == "cuda"


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class Device:
    """The first device, through NVML. Throws OSError if the driver or its library is missing."""

    def __init__(self):
        self._nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self._call("nvmlInit_v2")
        self._device = ctypes.c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(0), ctypes.byref(self._device))

    def _call(self, name, *arguments):
        error = getattr(self._nvml, name)(*arguments)
        if error:
            raise OSError(f"{name}: error {error}")

    def _text(self, name, *handle):
        buffer = ctypes.create_string_buffer(96)
        self._call(name, *handle, buffer, ctypes.c_uint(len(buffer)))
        return buffer.value.decode()

    def name(self):
        return self._text("nvmlDeviceGetName", self._device)

    def driver(self):
        return self._text("nvmlSystemGetDriverVersion")

    def used_bytes(self):
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", self._device, ctypes.byref(memory))
        return memory.used


class PeakWatch:
    """The most of a device's memory that was in use while it is watched, less what was in use before: of everything that
    a process holds there, its context and libraries included. `with PeakWatch() as watch: ...; watch.bytes`"""

    def __init__(self, device=None, period=0.01):
        self._device, self._period = device or Device(), period
        self.bytes = 0

    def __enter__(self):
        self._before, self._stop = self._device.used_bytes(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def _watch(self):
        while not self._stop.is_set():
            self.bytes = max(self.bytes, self._device.used_bytes() - self._before)
            time.sleep(self._period)

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def watch(options):
    """Returns a PeakWatch for a program on a GPU; None if NVML cannot watch it."""
    return PeakWatch() if options.device == "cuda" and not options.emulated else contextlib.nullcontext()


def device_count():
    """Returns how many GPUs the driver knows; 0 without a driver."""
    try:
        device, count = Device(), ctypes.c_uint(0)
        device._call("nvmlDeviceGetCount_v2", ctypes.byref(count))
        return count.value
    except OSError:
        return 0

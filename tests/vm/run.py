# SPDX-License-Identifier: Apache-2.0
"""Runs one of the guest's scripts on a Linux kernel with soft-RoCE devices, in QEMU.

usage: run.py BUILD SCRIPT LIMIT_S

BUILD is the build folder; SCRIPT lies beside this file and runs as root in the guest, which has the host's
files, read only. Its output appears here as it comes, and its exit code is this program's. After LIMIT_S
seconds the guest is stopped. Exit code 77 and one line: this machine cannot run it - unless
DETOUR_VM=required is in the environment, which makes that a failure."""
import os
import pathlib
import re
import subprocess
import sys
import threading
import time

import image

HERE = pathlib.Path(__file__).resolve().parent


def node(number):
    """Options for a NUMA node with one of the processors and half of the memory."""
    return ["-object", f"memory-backend-ram,id=node{number},size=1024M",
            "-numa", f"node,nodeid={number},cpus={number},memdev=node{number}"]


def command(kernel, initrd, console, build, script):
    # Unknown words of the kernel's command line become the environment of its first process.
    # A busy host may give an emulated processor no time in which the kernel could see its timer tick.
    words = ("console=ttyS0 quiet panic=-1 no_timer_check "
             f'DETOUR_VM_SCRIPT="{HERE / script}" DETOUR_VM_SOURCE="{HERE.parents[1]}" DETOUR_VM_BUILD="{build}"')
    return [image.find_program("qemu-system-x86_64"),
            # No KVM: CI machines are guests themselves and may not have it, and it is then no faster.
            "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "2048",
            *node(0), *node(1),
            "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-serial", f"file:{console}", "-serial", "stdio",
            "-kernel", str(kernel), "-initrd", str(initrd), "-append", words,
            "-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"]


def follow(guest, limit_s):
    """Prints the output of the guest; returns its exit code, or None if none came in time."""
    timer = threading.Timer(limit_s, guest.kill)
    timer.start()
    code = None
    try:
        for line in guest.stdout:
            found = re.match(r"vm: exit code (\d+)", line)
            if found:
                code = int(found[1])
            else:
                print(line.rstrip(), flush=True)
    finally:
        timer.cancel()
        guest.kill()
        guest.wait()
    return code


def run(build, script, limit_s):
    start = time.monotonic()
    folder = build / "vm"
    kernel, initrd = image.make(folder)
    console = folder / f"{script}.console"
    started = time.monotonic()
    guest = subprocess.Popen(command(kernel, initrd, console, build, script), text=True, errors="replace",
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    code = follow(guest, limit_s - (started - start))
    print(f"vm: {script}: {time.monotonic() - started:.0f} s in the guest", flush=True)
    if code is None:
        print(f"vm: the guest did not finish within {limit_s:.0f} s, or died")
    if code != 0:
        print(f"vm: the kernel's messages ({console}):")
        print(console.read_text(errors="replace") if console.exists() else "none")
    return 1 if code is None else code


def main(build, script, limit_s):
    try:
        return run(pathlib.Path(build).resolve(), script, float(limit_s))
    except image.Cannot as reason:
        print(f"vm: {'cannot run' if is_required() else 'skipped'}: {reason}")
        return 1 if is_required() else 77


def is_required():
    return os.environ.get("DETOUR_VM") == "required"


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""Checks any NCCL network plugin (ncclNet v8 to v12) with stock NCCL on this machine, without a GPU.

    check.py BUILD PLUGIN [--version VERSION] [--ranks N]

PLUGIN is a shared library. Its own settings, and NCCL's, are taken from the environment. Each check prints a line; the
exit status is 0 if all passed. What is checked: every collective and send/receive with its bytes compared, the protocols
Simple, LL and LL128 around their sizes, several communicators, abort in set-up and in traffic, the death of a rank, and,
for a plugin that exports v8, that GPU memory is used by the rules (late, unordered visibility without a flush).
"""
import argparse
import ctypes
import pathlib
import re
import sys

import ranks

MB = 1 << 20


def name_of(path):
    """(name, version) of the newest ncclNet that the plugin exports."""
    library = ctypes.CDLL(str(path))
    for version in range(12, 7, -1):
        try:
            net = ctypes.c_char_p.in_dll(library, f"ncclNetPlugin_v{version}")
        except ValueError:
            continue
        if not net.value:
            sys.exit(f"{path}: ncclNetPlugin_v{version} has no name")
        return net.value.decode(), version
    sys.exit(f"{path}: exports none of ncclNetPlugin_v8 to v12")


def exports_v8(path):
    try:
        ctypes.c_char_p.in_dll(ctypes.CDLL(str(path)), "ncclNetPlugin_v8")
        return True
    except ValueError:
        return False


class Checker:
    def __init__(self, build, plugin, version, count):
        self.build, self.plugin, self.count = build, plugin, count
        self.name, self.abi = name_of(plugin)
        self.nccl = ranks.find_nccl(version)
        self.failed = self.done = 0

    def run(self, title, steps, statuses=None, settings=None, needs=None, count=None):
        """statuses: what the ranks have to exit with; needs: a pattern that the output has to have."""
        count = count or self.count
        plugin = {"NCCL_NET_PLUGIN": str(self.plugin), "NCCL_NET": self.name}
        job = ranks.Job(self.build, self.nccl, count, steps, settings=settings, plugin=plugin, inherits=True)
        got = job.end(120)
        text = job.output()
        reason = ""
        if got != (statuses or [0] * count):
            reason = f"exit statuses {got}; None: it hung for 120 s"
        elif any(wrong for *_, wrong in ranks.operations(text)):
            reason = "wrong elements"
        elif needs and not re.search(needs, text):
            reason = f"no line with {needs}"
        print(f"{'FAILED' if reason else 'ok    '} {title}" + (f": {reason}" if reason else ""), flush=True)
        if reason:
            print("\n".join("    " + line for line in text.splitlines()[-30:]))
        self.done += 1
        self.failed += bool(reason)

    def collectives(self):
        names = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "send_recv", "all_to_all")
        self.run("NCCL uses the plugin", [f"all_reduce:{MB}"], settings={"NCCL_DEBUG": "INFO"},
                 needs=rf"via NET/{re.escape(self.name)}/")
        for name in names:
            self.run(name, [f"{name}:{size}:2" for size in (0, 8, 4096, 65536, 300000, 3 * MB, 16 * MB)])
        for protocol in ("Simple", "LL", "LL128"):
            around = [edge + delta for edge in (16, 1920, 65536, 524288, MB) for delta in (-8, 0, 8)]
            self.run(f"protocol {protocol}", [f"all_reduce:{size}:3" for size in around],
                     settings={"NCCL_PROTO": protocol})
        self.run("300 operations of changing size", [f"all_reduce:{4 << k % 20}:3" for k in range(0, 100, 7)])

    def communicators(self):
        self.run("communicators split and destroyed", ["split:3"])
        self.run("four communicators at once", ["comms:4"])
        self.run("abort in set-up", ["abort_init:200"], count=1)
        self.run("abort in traffic", [f"all_reduce:{MB}:2", "abort:60"])
        self.run("a killed rank is an error of the others, and abort returns",
                 [f"all_reduce:{MB}:20", f"kill:{self.count - 1}", f"all_reduce:{MB}:100000"],
                 statuses=[7] * (self.count - 1) + [-9], needs="ncclCommAbort returned 0")

    def gpu_memory(self):
        if not exports_v8(self.plugin):
            print("skip   GPU memory: the plugin exports no ncclNetPlugin_v8")
            return
        settings = {"DETOUR_NCCL_HOST_GDR": "1", "NCCL_NET_GDR_LEVEL": "SYS", "DETOUR_FORWARD_TO": str(self.plugin),
                    "NCCL_NET_PLUGIN": f"{self.build}/tests/nccl/libnccl-net-gpu-double.so"}
        for protocol in ("Simple", "LL", "LL128"):
            self.run(f"GPU memory, protocol {protocol}", [f"all_reduce:{size}:10" for size in (64, 4096, 262144)],
                     settings={**settings, "NCCL_PROTO": protocol})


def main():
    parser = argparse.ArgumentParser(prog="detour-nccl-check", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("plugin", type=pathlib.Path)
    parser.add_argument("--version", default="cu12-2.28.9", help="a version of scripts/nccl_wheels.sh")
    parser.add_argument("--ranks", type=int, default=2)
    chosen = parser.parse_args()
    if not chosen.plugin.is_file():
        sys.exit(f"{chosen.plugin}: no such file")
    checker = Checker(chosen.build.resolve(), chosen.plugin.resolve(), chosen.version, chosen.ranks)
    print(f"{checker.name} (ncclNet v{checker.abi}) with NCCL {chosen.version}, {chosen.ranks} ranks")
    checker.collectives()
    checker.communicators()
    checker.gpu_memory()
    print(f"{checker.done} checks, {checker.failed} failed")
    sys.exit(1 if checker.failed else 0)


if __name__ == "__main__":
    main()

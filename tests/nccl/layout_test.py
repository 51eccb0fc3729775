# SPDX-License-Identifier: Apache-2.0
"""The rows of kernels/layout.c against the debug information of each NCCL in the cache, and the rows' constants.

    layout_test.py BUILD [VERSION...]    versions of scripts/nccl_wheels.sh; all in the cache unless named
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import ranks

BUILD = pathlib.Path(sys.argv[1]).resolve()
CACHE = pathlib.Path(os.environ.get("DETOUR_NCCL_CACHE") or
                     pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "detour/nccl")


def offset(structure, member):
    return f"(long)&((struct {structure} *)0)->{member}"


def size(structure):
    return f"(long)sizeof(struct {structure})"


# What a field of struct nh_layout, or a constant beside it, has to be: an expression for gdb.
FIELDS = {
    "comm_abort": offset("ncclKernelComm", "abortFlag"),
    "comm_channels": offset("ncclKernelCommAndChannels", "channels"),
    "channel_bytes": size("ncclDevChannel"),
    "ring_index": offset("ncclDevChannel", "ring.index"),
    "channel_counter": offset("ncclDevChannel", "workCounter"),
    "coll_bytes": size("ncclDevWorkColl"),
    "coll_recv": offset("ncclDevWorkColl", "recvbuff"),
    "coll_send": offset("ncclDevWorkColl", "sendbuff"),
    "coll_cbd": offset("ncclDevWorkColl", "cbd"),
    "fifo_bytes": size("ncclConnFifo"),
    "fifo_offset": offset("ncclConnFifo", "offset"),
    "fifo_size": offset("ncclConnFifo", "size"),
    "NH_ARGS_CHANNEL_MASK": offset("ncclDevKernelArgs", "channelMask"),
    "NH_ARGS_STORAGE": offset("ncclDevKernelArgs", "workStorageType"),
    "NH_ARGS_WORK_MASK": offset("ncclDevKernelArgs", "workMask"),
    "NH_ARGS_WORK_BUFFER": offset("ncclDevKernelArgs", "workBuf"),
    "NH_ARGS_BYTES": size("ncclDevKernelArgs"),
    "NH_BATCH_OFFSET": offset("ncclDevWorkBatch", "offsetBase"),
    "NH_BATCH_SET": offset("ncclDevWorkBatch", "offsetBitset"),
    "NH_BATCH_BYTES": size("ncclDevWorkBatch"),
    "NH_COMM_RANK": offset("ncclKernelComm", "rank"),
    "NH_COMM_RANKS": offset("ncclKernelComm", "nRanks"),
    "NH_COMM_BUFFER_BYTES": offset("ncclKernelComm", "buffSizes"),
    "NH_COMM_P2P_CHUNK": offset("ncclKernelComm", "p2pChunkSize"),
    "NH_CHANNEL_PEERS": offset("ncclDevChannel", "peers"),
    "NH_RING_PREVIOUS": offset("ncclDevChannel", "ring.prev"),
    "NH_RING_NEXT": offset("ncclDevChannel", "ring.next"),
    "NH_RING_USER_RANKS": offset("ncclDevChannel", "ring.userRanks"),
    "NH_CONN_BYTES": size("ncclConnInfo"),
    "NH_CONN_TAIL": offset("ncclConnInfo", "tail"),
    "NH_CONN_HEAD": offset("ncclConnInfo", "head"),
    "NH_CONN_STEP_SIZE": offset("ncclConnInfo", "stepSize"),
    "NH_CONN_FIFO": offset("ncclConnInfo", "connFifo"),
    "NH_CONN_STEP": offset("ncclConnInfo", "step"),
    "NH_P2P_RECV_ADDRESS": offset("ncclDevWorkP2p", "recvAddr"),
    "NH_P2P_SEND_BYTES": offset("ncclDevWorkP2p", "sendBytes"),
    "NH_P2P_RECV_BYTES": offset("ncclDevWorkP2p", "recvBytes"),
    "NH_P2P_SEND_RANK": offset("ncclDevWorkP2p", "sendRank"),
    "NH_P2P_RECV_RANK": offset("ncclDevWorkP2p", "recvRank"),
    "NH_P2P_CHANNELS": offset("ncclDevWorkP2p", "nP2pChannels"),
    "NH_P2P_CHANNEL_BASE": offset("ncclDevWorkP2p", "channelBase"),
    "NH_P2P_SEND_CHANNELS": offset("ncclDevWorkP2p", "nSendChannels"),
    "NH_P2P_RECV_CHANNELS": offset("ncclDevWorkP2p", "nRecvChannels"),
    "NH_P2P_SEND_CHUNK": offset("ncclDevWorkP2p", "sendChunkSize_u32fp8"),
    "NH_P2P_RECV_CHUNK": offset("ncclDevWorkP2p", "recvChunkSize_u32fp8"),
    "NH_P2P_BYTES": size("ncclDevWorkP2p"),
    "NH_COLL_ROOT": offset("ncclDevWorkColl", "root"),
}
# Structures that only kernels name are in no debug information of the host code.
MAY_BE_MISSING = {"channel_counter"}


def rows():
    """{version: {field: value}} of kernels/layout.c, as nccl-layout prints them."""
    table = {}
    for line in subprocess.check_output([BUILD / "tests/nccl/nccl-layout"], text=True).splitlines():
        version, *fields = line.split()
        table[int(version)] = dict((name, int(value)) for name, value in (field.split("=") for field in fields))
    return table


def from_debug_information(library):
    """{field: value} from gdb; what it does not know is missing. Up to 2.25 ncclKernelComm was called ncclDevComm, which
    is another structure today: the last answer for a field counts."""
    expressions = [(name, text) for name, expression in FIELDS.items()
                   for text in (expression.replace("ncclKernelComm", "ncclDevComm"), expression)]
    words = [word for name, text in expressions for word in ("-ex", f'printf "{name}=%ld\\n", {text}')]
    out = subprocess.run(["gdb", "-batch", "-nx", *words, "-ex", "ptype/o struct ncclDevWorkBatch", library],
                         capture_output=True, text=True, check=False).stdout
    found = dict(re.findall(r"^(\w+)=(-?\d+)$", out, re.MULTILINE))
    bits = re.search(r"funcId *: *(\d+);", out)
    if bits:
        found["func_bits"] = bits[1]
    return {name: int(value) for name, value in found.items()}


def version_number(name):
    major, minor, patch = (int(part) for part in name.split("-")[1].split("."))
    return major * 10000 + minor * 100 + patch


class Layouts(unittest.TestCase):
    def test_rows_match_debug_information(self):
        table = rows()
        checked = 0
        for name in VERSIONS:
            number = version_number(name)
            if number not in table:
                continue
            found = from_debug_information(CACHE / name / "libnccl.so.2")
            missing = {*FIELDS, "func_bits"} - set(found)
            self.assertLessEqual(missing, MAY_BE_MISSING, name)
            expected = {field: value for field, value in table[number].items() if field in found}
            self.assertEqual(expected, {field: found[field] for field in expected}, name)
            print(f"{name}: {len(expected)} fields", flush=True)
            checked += 1
        self.assertGreater(checked, 0, "no version with a row is in the cache")


if __name__ == "__main__":
    if not shutil.which("gdb"):
        ranks.skip("gdb is not installed")
    VERSIONS = sys.argv[2:] or sorted(path.parent.name for path in CACHE.glob("cu*/libnccl.so.2"))
    if not VERSIONS:
        ranks.skip(f"no NCCL in {CACHE}; scripts/nccl_wheels.sh fetches one")
    unittest.main(argv=[sys.argv[0]], verbosity=2)

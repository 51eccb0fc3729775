# SPDX-License-Identifier: Apache-2.0
"""The drop-in library beside the system's libibverbs: every name, with the same version, the same default."""
import ctypes
import os
import re
import shutil
import subprocess
import sys

SKIPPED = 77
PRIVATE = "IBVERBS_PRIVATE_"
# With LD_LIBRARY_PATH, who asks for these files' libraries or is one of them gets all of libibverbs from ours.
USERS = ["ibv_devices", "ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw", "ib_send_bw", "ib_read_bw", "ib_write_lat",
         "libmlx5.so.1", "libmlx4.so.1", "libefa.so.1", "librdmacm.so.1"]


def dynamic_symbols(path, is_defined=True):
    """{(name, version, is it the default)} of what a library defines, or else needs."""
    lines = subprocess.run(["readelf", "--wide", "--dyn-syms", path], text=True, check=True,
                           stdout=subprocess.PIPE).stdout.splitlines()
    found = set()
    for line in lines:
        words = line.split()
        if len(words) < 8 or words[6] in ("ABS", "Ndx") or (words[6] == "UND") == is_defined or \
                words[4] not in ("GLOBAL", "WEAK"):
            continue
        match = re.fullmatch(r"(\w+)(@@?)([\w.]+)", words[7])
        found.add((match[1], match[3], match[2] == "@@") if match else (words[7], "", True))
    return found


def soname(path):
    text = subprocess.run(["readelf", "--wide", "--dynamic", path], text=True, check=True,
                          stdout=subprocess.PIPE).stdout
    match = re.search(r"\(SONAME\).*\[(.*)\]", text)
    return match[1] if match else None


def system_library():
    """(its path, the library), or None where there is none."""
    try:
        library = ctypes.CDLL("libibverbs.so.1")
    except OSError:
        return None
    with open("/proc/self/maps", encoding="ascii") as maps:
        return next(line.split()[-1] for line in maps if "libibverbs.so" in line), library


def check_users(ours, folder):
    """What programs and libraries of this machine need of libibverbs is there."""
    have = {(name, version) for name, version, _ in ours}
    checked = 0
    for user in USERS:
        path = f"{folder}/{user}" if ".so" in user else shutil.which(user)
        if not path or not os.path.exists(path):
            continue
        needed = {(name, version) for name, version, _ in dynamic_symbols(path, False)
                  if version.startswith("IBVERBS_")}
        assert needed, f"{path} needs nothing of libibverbs?"
        assert needed <= have, f"{path} needs {sorted(needed - have)}"
        checked += 1
    return checked


def check_rates(ours, theirs):
    """The same answers for every rate, number of Mbit/s and multiple."""
    for name, values in {"ibv_rate_to_mbps": range(-1, 40), "ibv_rate_to_mult": range(-1, 40),
                         "mult_to_ibv_rate": range(-1, 600),
                         "mbps_to_ibv_rate": [theirs.ibv_rate_to_mbps(rate) for rate in range(40)]}.items():
        for value in values:
            got, wanted = getattr(ours, name)(value), getattr(theirs, name)(value)
            assert got == wanted, f"{name}({value}) is {got}, the system's library has {wanted}"


def main(path):
    ours = dynamic_symbols(path)
    unversioned = {name for name, version, _ in ours if not version}
    assert not unversioned, f"without a version: {unversioned}"
    assert soname(path) is None, f"its SONAME is {soname(path)}; preloaded it would replace the system's library"
    system = system_library()
    if not system:
        print("symbols: skipped: this machine has no libibverbs.so.1 to compare with")
        return SKIPPED
    theirs = dynamic_symbols(system[0])
    assert len(theirs) > 100, f"{system[0]} has {len(theirs)} symbols only"
    # A later libibverbs has names that ours cannot know: they stand in nodes of their own, or are private.
    nodes = {version for _, version, _ in ours if not version.startswith(PRIVATE)}
    missing = {symbol for symbol in theirs - ours if symbol[1] in nodes}
    assert not missing, f"missing, or of another version: {sorted(missing)}"
    foreign = {symbol for symbol in ours - theirs if symbol[1] in {version for _, version, _ in theirs}}
    assert not foreign, f"{system[0]} does not have: {sorted(foreign)}"
    users = check_users(ours, os.path.dirname(system[0]))
    check_rates(ctypes.CDLL(path), system[1])
    unknown = sorted(theirs - ours)
    print(f"symbols: {len(ours)} names and versions are as in {system[0]}, with all that {users} of its users need" +
          (f"; newer than ours: {unknown}" if unknown else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

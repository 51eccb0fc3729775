# SPDX-License-Identifier: Apache-2.0
"""
usage: check_glibc.py COMPILER FILE...

The libraries and the command run with glibc 2.28 (RHEL 8) when they are built there: the sources ask for no function that is
younger. A build binds each function to the newest version of the C library that is installed, for example pthread_create to
2.34, where it moved from libpthread to libc; so a bound version above 2.28 counts only if the C library offers no older
version of the same name. It checks itself with a library that does ask for a younger function. Exit status 77: not glibc.
"""
import os
import re
import subprocess
import sys
import tempfile

OLDEST = (2, 28)
LIBRARIES = ["libc.so.6", "libm.so.6"]
# Before 2.33 the headers made these from __xstat() and its kin, which have no version of the new names.
INLINE_BEFORE = {"stat", "fstat", "lstat", "fstatat", "mknod", "mknodat"}
YOUNG = """#include <semaphore.h>
#include <time.h>
int young(sem_t *s, const struct timespec *t);
int young(sem_t *s, const struct timespec *t) { return sem_clockwait(s, CLOCK_MONOTONIC, t); }
"""


def symbols(path):
    """(name, version, whether it is imported) of each dynamic symbol that has a version of glibc."""
    text = subprocess.run(["readelf", "-W", "--dyn-syms", path], text=True, capture_output=True, check=True).stdout
    for line in text.splitlines():
        match = re.search(r" (\S+) (\w+)@@?GLIBC_([0-9.]+)", line)
        if match:
            yield match.group(2), tuple(int(part) for part in match.group(3).split(".")), match.group(1) == "UND"


def oldest_versions(compiler):
    """name -> the oldest version that the installed C library offers."""
    oldest = {}
    for library in LIBRARIES:
        path = subprocess.run([compiler, f"-print-file-name={library}"], text=True, capture_output=True, check=True).stdout.strip()
        if not os.path.isabs(path):
            print(f"glibc: {compiler} knows no {library}: nothing is checked")
            sys.exit(77)
        for name, version, is_imported in symbols(path):
            if not is_imported:
                oldest[name] = min(version, oldest.get(name, version))
    return oldest


def too_young(path, oldest):
    return [f"{name} (GLIBC_{'.'.join(map(str, version))})" for name, version, is_imported in symbols(path)
            if is_imported and name not in INLINE_BEFORE and min(version, oldest.get(name, version)) > OLDEST]


def finds_a_young_function(compiler, oldest):
    if oldest.get("sem_clockwait", OLDEST) <= OLDEST:
        return True
    with tempfile.TemporaryDirectory() as folder:
        source, library = os.path.join(folder, "young.c"), os.path.join(folder, "young.so")
        with open(source, "w", encoding="utf-8") as file:
            file.write(YOUNG)
        subprocess.run([compiler, "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source, "-pthread"], check=True)
        return bool(too_young(library, oldest))


def main(compiler, *paths):
    oldest = oldest_versions(compiler)
    if not finds_a_young_function(compiler, oldest):
        sys.exit("glibc: a library that calls sem_clockwait() passes: the check is broken")
    found = [f"{path}: {name} is younger than glibc {'.'.join(map(str, OLDEST))}" for path in paths
             for name in too_young(path, oldest)]
    print("\n".join(found) or f"glibc: {len(paths)} files ask for nothing younger than 2.28")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

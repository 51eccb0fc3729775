#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
usage: mlx5_headers_test.py SOURCE_DIR COMPILER

Compiles verbs/mlx5.c against variants of the installed <infiniband/mlx5dv.h>: releases of rdma-core append members to its structures
(54 appended one to mlx5dv_obj), and Detour has to build with each of them. Exit status 77: the header is not installed.
"""
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HEADER = "infiniband/mlx5dv.h"
OBJECT_MEMBER = "\tstruct {\n\t\tvoid *in;\n\t\tvoid *out;\n\t} appended;\n"


def find_header(compiler):
    """The path of the installed header, or None."""
    run = subprocess.run([compiler, "-E", "-x", "c", "-"], input=f"#include <{HEADER}>\n", capture_output=True, text=True)
    match = re.search(r'^# \d+ "([^"]*/mlx5dv\.h)"', run.stdout, re.M)
    return Path(match.group(1)) if run.returncode == 0 and match else None


def change(text, structure, edit):
    """The text with the body of one structure changed."""
    changed, count = re.subn(r"(^struct %s \{\n)(.*?)(^\};)" % structure,
                             lambda m: m.group(1) + edit(m.group(2)) + m.group(3), text, flags=re.M | re.S)
    assert count == 1, f"{HEADER} has no struct {structure}"
    return changed


def newer(text):
    """A later release: each structure has members more."""
    text = change(text, "mlx5dv_obj", lambda body: body + OBJECT_MEMBER)
    text = change(text, "mlx5dv_cq", lambda body: body + "\tuint64_t appended;\n")
    return change(text, "mlx5dv_qp", lambda body: body + "\tuint64_t appended[2];\n")


def older(text):
    """An earlier release: mlx5dv_obj ends with its second member."""
    return change(text, "mlx5dv_obj", lambda body: "".join(re.findall(r"\tstruct \{.*?\} (?:qp|cq);\n", body, re.S)))


def broken(text):
    """Members of mlx5dv_obj in another order: the compilation has to fail, or these checks check nothing."""
    return change(text, "mlx5dv_obj", lambda body: OBJECT_MEMBER + body)


def compiles(compiler, source, header_text):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / HEADER
        path.parent.mkdir()
        path.write_text(header_text)
        run = subprocess.run([compiler, "-std=gnu17", "-fsyntax-only", "-D_GNU_SOURCE", "-I", folder, "-I", source, "-I",
                              f"{source}/include", f"{source}/verbs/mlx5.c"], capture_output=True, text=True)
        return run.returncode == 0, run.stderr


def main():
    source, compiler = sys.argv[1:3]
    header = find_header(compiler)
    if not header:
        print(f"<{HEADER}> is not installed: skipped")
        return 77
    failures = 0
    for variant, is_good in ((lambda text: text, True), (newer, True), (older, True), (broken, False)):
        is_compiled, errors = compiles(compiler, source, variant(header.read_text()))
        if is_compiled != is_good:
            failures += 1
            print(f"{variant.__name__}: verbs/mlx5.c {'compiles' if is_compiled else 'does not compile'}\n{errors}")
    print(f"{failures} of 4 variants of <{HEADER}> gave another result than expected")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())

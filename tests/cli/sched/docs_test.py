# SPDX-License-Identifier: Apache-2.0
"""The examples of a page of docs/: each `$ detour ...` in an indented block is run, in order, in one folder, and must
print what the page says ("..." stands for anything, times of planning do not count). `$ cat FILE` makes the file.

Usage: docs_test.py DETOUR PAGE COUNT [--update]   COUNT is the least number of examples that the page has; --update
writes the outputs into the page"""
import doctest
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"
INDENT = "    "
PLANNING_MS = re.compile(r" +[0-9]+\.[0-9]{2}(?= +[0-9]+\.[0-9]{2} \|)")


def examples(lines):
    """(number of the `$` line, command, lines it is said to print) of the page."""
    for i, line in enumerate(lines):
        if line.startswith(INDENT + "$ "):
            printed = []
            for following in lines[i + 1:]:
                if not following.startswith(INDENT) or following.startswith(INDENT + "$ "):
                    break
                printed.append(following[len(INDENT):])
            yield i, shlex.split(line[len(INDENT) + 2:]), printed


def run(detour, command, folder):
    done = subprocess.run([detour, *command[1:]], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=240, env={**os.environ, "LC_ALL": "C.UTF-8"})
    return done.stdout.splitlines()


def cut(printed, said):
    """The output as the page shows it: as many lines as it had where it goes on with "...", and the decision of adapt."""
    if said[-1:] != ["..."]:
        return printed
    if len(said) > 2:
        return printed[:len(said) - 1] + ["..."]
    begin = next(i for i, line in enumerate(printed) if line.startswith(' "adapt"'))
    end = next(i for i, line in enumerate(printed) if i > begin and line == " },")
    return ["{", "...", *printed[begin:end + 1], "..."]


def main():
    detour, page, update = sys.argv[1], DOCS / sys.argv[2], sys.argv[4:] == ["--update"]
    lines, failed, count = page.read_text().splitlines(), 0, 0
    changes = []
    with tempfile.TemporaryDirectory() as folder:
        for i, command, said in examples(lines):
            if command[0] == "cat":
                pathlib.Path(folder, command[1]).write_text("\n".join(said) + "\n")
                continue
            printed = run(detour, command, folder)
            count += 1
            if update:
                changes.append((i + 1, len(said), [INDENT + line for line in cut(printed, said)]))
                continue
            want, got = (PLANNING_MS.sub(" T", "\n".join(text) + "\n") for text in (said, printed))
            if not doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS):
                failed += 1
                print(f"{page.name}:{i + 1}: {lines[i].strip()}\nsays:\n{want}prints:\n{got}")
    for begin, length, new in reversed(changes):
        lines[begin:begin + length] = new
    if update:
        page.write_text("\n".join(lines) + "\n")
    print(f"{count} examples, {failed} of them wrong")
    return 1 if failed or count < int(sys.argv[3]) else 0


if __name__ == "__main__":
    sys.exit(main())

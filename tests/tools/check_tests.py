# SPDX-License-Identifier: Apache-2.0
"""Every file of tests is part of some test program: one that no CMakeLists.txt names is never compiled, and never
fails."""
import pathlib
import sys


def is_named(path, lists):
    """By the list of its own folder, or with its folder by another."""
    own = lists.get(path.parent, [])
    return path.name in own or any(word.endswith(f"{path.parent.name}/{path.name}")
                                   for words in lists.values() for word in words)


def main(root):
    folder = pathlib.Path(root, "tests")
    lists = {path.parent: path.read_text(encoding="utf-8").replace("(", " ").replace(")", " ").split()
             for path in folder.rglob("CMakeLists.txt")}
    for words in lists.values():
        words += [word.removeprefix("${CMAKE_CURRENT_SOURCE_DIR}/") for word in words]
    lost = [path for pattern in ("*_test.cc", "*_test.py") for path in sorted(folder.rglob(pattern))
            if not is_named(path, lists)]
    for path in lost:
        print(f"{path}: in no CMakeLists.txt, so it is never run")
    if not lost:
        print("tests: all files are part of a program")
    return bool(lost)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

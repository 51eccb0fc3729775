# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone, as C17 and as C++17, without a warning."""
import concurrent.futures
import subprocess
import sys

import tree


def compile_alone(root, compiler, language, path):
    command = [*compiler, "-x", language, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE",
               f"-I{root}", f"-I{root}/include", "-include", str(path), "/dev/null"]
    done = subprocess.run(command, capture_output=True, text=True)
    return None if done.returncode == 0 else f"{path} as {language}:\n{done.stderr}"


def main(root, cc, cxx):
    jobs = [(root, compiler, language, path) for _, path in tree.sources(root, ".h")
            for compiler, language in (([cc, "-std=gnu17"], "c"), ([cxx, "-std=gnu++17"], "c++"))]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [p for p in pool.map(lambda job: compile_alone(*job), jobs) if p]
    print("\n".join(found) or f"headers: {len(jobs) // 2} compile alone as C and as C++")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

# SPDX-License-Identifier: Apache-2.0
"""What `cmake --install` puts down works from a folder of the user's choice: pkg-config, find_package(detour),
the command, the Python modules, and the symbols that the libraries show."""
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAM = """#include <stdio.h>
#include <detour/sched.h>
#include <detour/stat.h>
#include <detour/version.h>
int main(void)
{
    if (detour_stat_api() < DETOUR_STAT_API)
        return 1;
    printf("%s: %s\\n", DETOUR_VERSION_STRING, detour_status_text(DETOUR_OK));
    return 0;
}
"""
PROJECT = """cmake_minimum_required(VERSION 3.22)
project(user C)
find_package(detour {version} REQUIRED)
if(NOT EXISTS "${{DETOUR_NCCL_PLUGIN}}")
  message(FATAL_ERROR "DETOUR_NCCL_PLUGIN is ${{DETOUR_NCCL_PLUGIN}}: no such file")
endif()
add_executable(user user.c)
target_link_libraries(user PRIVATE detour::detour-sched detour::detour-stat)
"""


def run(*command, **settings):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, **settings)
    if done.returncode:
        sys.exit(f"install: {' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def exported(library):
    """Names of the defined dynamic symbols, without versions; version nodes (type A) are no symbols."""
    lines = [line.split() for line in run("nm", "-D", "--defined-only", library).splitlines()]
    return {name.split("@")[0] for _, kind, name in lines if kind != "A"}


def pkg_config(libdir, *options):
    # Only the installed files are to be found, not those that the machine has.
    return run("pkg-config", *options, "detour", "detour-stat", env={"PKG_CONFIG_LIBDIR": str(libdir / "pkgconfig"),
                                                     "PATH": "/usr/local/bin:/usr/bin:/bin"}).split()


def check(build, cmake, compiler, scratch):
    prefix = scratch / "a prefix"
    run(cmake, "--install", build, "--prefix", prefix)
    plugin, = prefix.rglob("libnccl-net-detour.so")
    libdir = plugin.parent
    version = run(prefix / "bin/detour", "--version").split()[1]
    assert exported(plugin) == {"ncclNetPlugin_v8"}, f"{plugin}: exports {exported(plugin)}"
    # Not where the dynamic linker would find it for programs that mean the real one.
    dropin = libdir / "detour/softrnic/libibverbs.so.1"
    assert {"ibv_open_device", "ibv_create_qp"} <= exported(dropin), f"{dropin}: exports {exported(dropin)}"
    assert (dropin.parent / "libibverbs.so").resolve() == dropin.resolve()
    for library, prefix_of in (("libdetour-sched.so", "detour_"), ("libdetour-stat.so", "detour_stat_")):
        names = exported(libdir / library)
        foreign = {name for name in names if not name.startswith(prefix_of)}
        assert names and not foreign, f"{library} exports {foreign or 'nothing'}"

    run(sys.executable, "-B", "-c", "import detour_agreement, detour_follow, detour_sched, detour_stat; detour_sched.algorithms()",
        env={"PYTHONPATH": str(libdir / "detour/python"), "PATH": "/usr/local/bin:/usr/bin:/bin"})
    assert (libdir / "detour/python/detour_torch.py").exists()

    source = scratch / "user.c"
    source.write_text(PROGRAM)
    wanted = f"{version}: success\n"
    # Spaces in a prefix are escaped by pkg-config; a shell would take the backslashes away.
    flags = [flag.replace("\\", "") for flag in re.split(r"(?<!\\) ", " ".join(
        pkg_config(libdir, "--cflags", "--libs")))]
    run(compiler, source, "-o", scratch / "by-pkg-config", *flags, f"-Wl,-rpath,{libdir}")
    assert run(scratch / "by-pkg-config") == wanted
    assert pkg_config(libdir, "--modversion") == [version, version]

    (scratch / "CMakeLists.txt").write_text(PROJECT.format(version=version))
    run(cmake, "-S", scratch, "-B", scratch / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
        f"-DCMAKE_C_COMPILER={compiler}")
    run(cmake, "--build", scratch / "build")
    assert run(scratch / "build/user") == wanted


def main(build, cmake, compiler):
    with tempfile.TemporaryDirectory() as scratch:
        check(pathlib.Path(build), cmake, compiler, pathlib.Path(scratch))
    print("install: pkg-config, find_package and the exported symbols are right")


if __name__ == "__main__":
    main(*sys.argv[1:])

# SPDX-License-Identifier: Apache-2.0
"""Kernel and initial file system of the guest, made from Debian packages inside the build folder; nothing is
installed. Made once: the next run finds them there."""
import fcntl
import os
import pathlib
import re
import shutil
import subprocess

# Loaded in this order, with what they depend on. rdma_rxe asks for crc32 through modprobe, which the initial
# file system does not have, so the algorithm comes first.
MODULES = ("crc32_generic", "virtio_pci", "9pnet_virtio", "9p", "veth", "bridge", "sch_netem", "sch_ingress",
           "cls_matchall", "act_gact", "overlay", "ib_uverbs", "rdma_rxe")

# The host's files are the guest's, read only; what the guest writes is in memory and ends with it.
INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
while read module; do insmod "$module" || echo "vm: $module does not load"; done </modules
mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro host /host
mount -t proc proc /host/proc
mount -t sysfs sys /host/sys
mount --bind /dev /host/dev
mkdir -p /dev/shm
hostname guest
mount -t tmpfs shm /dev/shm
chroot /host /bin/bash "$DETOUR_VM_SCRIPT" >/dev/ttyS1 2>&1 </dev/null
echo "vm: exit code $?" >/dev/ttyS1
sleep 0.2
poweroff -f
"""


class Cannot(Exception):
    """Why there can be no guest here, in one line."""


def output(*command, **settings):
    """What a command prints; Cannot when it fails."""
    try:
        return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=120, **settings).stdout
    except FileNotFoundError:
        raise Cannot(f"there is no {command[0]} (scripts/setup.sh ci installs it)") from None
    except subprocess.TimeoutExpired:
        raise Cannot(f"`{' '.join(command)}` takes longer than two minutes") from None
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip() or "no message").splitlines()[-1]
        raise Cannot(f"`{' '.join(command)}` fails: {last}") from None


def find_program(name):
    path = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not path:
        raise Cannot(f"there is no {name} (scripts/setup.sh ci installs it)")
    return path


def kernel_package(apt_options):
    """The package that Debian's linux-image-amd64 stands for today, or None if the lists do not have it."""
    depends = subprocess.run(["apt-cache", *apt_options, "depends", "linux-image-amd64"], text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    found = re.search(r"Depends: (linux-image-[0-9]\S*)", depends)
    return found and found[1]


def download_kernel(folder):
    """Fetches and unpacks the kernel package into folder/kernel."""
    find_program("apt-get")
    options = []
    package = kernel_package(options)
    if not package:  # no package lists on this machine: some of our own
        lists = folder / "lists"
        (lists / "partial").mkdir(parents=True, exist_ok=True)
        options = ["-o", f"Dir::State::lists={lists}"]
        output("apt-get", *options, "update", "-qq")
        package = kernel_package(options)
    if not package:
        raise Cannot("no package linux-image-amd64: the guest runs Debian's kernel")
    for left in folder.glob("*.deb"):
        left.unlink()
    output("apt-get", *options, "download", package, cwd=folder)
    unpacked = folder / "kernel.part"
    shutil.rmtree(unpacked, ignore_errors=True)
    output("dpkg-deb", "-x", str(next(folder.glob("*.deb"))), str(unpacked))
    unpacked.rename(folder / "kernel")
    next(folder.glob("*.deb")).unlink()


def module_files(kernel, version):
    """The files of MODULES and of all they depend on, in the order to load them."""
    output(find_program("depmod"), "-b", str(kernel), version)
    files = []
    for module in MODULES:
        shown = output(find_program("modprobe"), "-d", str(kernel), "-S", version, "--show-depends", module)
        for path in re.findall(r"^insmod (\S+)", shown, re.M):
            if path not in files:
                files.append(path)
    return [pathlib.Path(path) for path in files]


def make_initial_files(folder, version):
    """Writes folder/initrd: busybox, the modules and INIT."""
    root = folder / "initrd.d"
    shutil.rmtree(root, ignore_errors=True)
    for name in ("bin", "proc", "sys", "dev", "host", "modules.d"):
        (root / name).mkdir(parents=True)
    shutil.copy(find_program("busybox"), root / "bin/busybox")
    names = []
    for path in module_files(folder / "kernel", version):
        shutil.copy(path, root / "modules.d" / path.name)
        names.append(f"/modules.d/{path.name}\n")
    (root / "modules").write_text("".join(names))
    (root / "init").write_text(INIT)
    (root / "init").chmod(0o755)
    listed = "".join(f"{path.relative_to(root)}\n" for path in sorted(root.rglob("*")))
    with open(folder / "initrd", "wb") as archive:
        subprocess.run([find_program("cpio"), "-o", "-H", "newc", "--quiet"], cwd=root, check=True,
                       input=listed.encode(), stdout=archive)


def make(folder):
    """(kernel file, initial file system) below `folder`. One process makes them, others wait. Cannot."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "kernel").exists():
            download_kernel(folder)
        version = next((folder / "kernel/lib/modules").iterdir()).name
        make_initial_files(folder, version)
    return folder / f"kernel/boot/vmlinuz-{version}", folder / "initrd"

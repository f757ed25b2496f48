"""What gpu_check needs on a machine that has PyTorch and nothing else of ours.

A folder with stripped programs and the libraries that they load, except for LibTorch's
and CUDA's own, which are that machine's torch; and, if given, an NCCL of which the code
for other GPUs than those of ARCHITECTURE was zeroed, so that it packs well.
"""

import lzma
import os
import re
import shutil
import struct
import subprocess
import sys

PROGRAMS = ("bin/troupe", "bin/troupe-runtime", "bin/tests/gpu", "bin/tests/gpu_training",
            "bin/bench/fused", "bin/bench/monitors", "bin/bench/overhead")
PLUGIN = "lib/libtroupe_cuda.so"
# Of torch, of CUDA, and of every Linux.
THEIRS = re.compile(r"lib(torch|c10|cu|nv|nccl|caffe2|shm|gomp)[-_.\w]*\.so"
                    r"|lib(c|m|dl|rt|util|pthread|gcc_s|stdc\+\+|ld-linux[-_\w]*)\.so")
ARCHITECTURE = 90
MOST_MIB = 64


def libraries_of(program):
    """Paths of what a program loads, by their names."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    found = dict(re.findall(r"(\S+) => (/\S+)", said))
    return {name: path for name, path in found.items() if not THEIRS.match(name)}


def sections(path):
    text = subprocess.run(["readelf", "-S", "-W", path], capture_output=True, text=True,
                          check=True).stdout
    found = re.findall(r"\]\s+(\S+)\s+PROGBITS\s+\S+\s+([0-9a-f]+)\s+([0-9a-f]+)", text)
    return {name: (int(offset, 16), int(size, 16)) for name, offset, size in found}


def zero_other_code(data, offset, size, keep):
    """Walks a section of fat binaries: each has a header, then entries of one GPU each."""
    at, end = offset, offset + size
    while at < end - 16:
        magic, _, header, length = struct.unpack_from("<IHHQ", data, at)
        if magic != 0xBA55ED50:
            at += 8
            continue
        entry, stop = at + header, at + header + length
        while entry < stop:
            kind, _, head, payload = struct.unpack_from("<HHIQ", data, entry)
            (architecture,) = struct.unpack_from("<I", data, entry + 28)
            if kind != 2 or architecture != keep:  # 2: machine code; 1: PTX
                data[entry + head : entry + head + payload] = bytes(payload)
            entry += head + payload
        at = stop


def pack_nccl(source, target):
    with open(source, "rb") as file:
        data = bytearray(file.read())
    for name, (offset, size) in sections(source).items():
        if name in (".nv_fatbin", "__nv_relfatbin"):
            zero_other_code(data, offset, size, ARCHITECTURE if name == ".nv_fatbin" else None)
    with lzma.open(target, "wb", preset=9) as file:
        file.write(data)


def make(build, folder, nccl):
    if os.path.exists(folder) and os.listdir(folder):
        sys.exit(f"--bundle {folder}: there are files in it; name a new folder")
    libraries = {}
    for name in (*PROGRAMS, PLUGIN):
        source, target = os.path.join(build, name), os.path.join(folder, name)
        if not os.path.exists(source):
            sys.exit(f"{name} is not in {build}: run scripts/build release, or give --build")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        subprocess.run(["strip", "-o", target, source], check=True)
        libraries |= libraries_of(source)
    for name, path in libraries.items():
        shutil.copy(os.path.realpath(path), os.path.join(folder, "lib", name))
    if nccl:
        pack_nccl(nccl, os.path.join(folder, "lib/libnccl.so.2.xz"))
    size = sum(os.path.getsize(os.path.join(at, name))
               for at, _, names in os.walk(folder) for name in names)
    print(f"{folder}: {size / 2**20:.1f} MiB, {len(libraries)} libraries; on the other "
          f"machine: scripts/gpu_check --build {os.path.basename(folder)}")
    if size > MOST_MIB * 2**20:
        sys.exit(f"that is more than {MOST_MIB} MiB")
    return 0

"""Files in the safetensors format, with their tensors in the order given."""

import json
import struct

import torch

DTYPES = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64}


def read_header(file):
    (size,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(size))
    header.pop("__metadata__", None)
    return header


def read_safetensors(path):
    with open(path, "rb") as f:
        header = read_header(f)
        data = f.read()
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(bytearray(data[begin:end]), dtype=DTYPES[entry["dtype"]])
        out[name] = flat.reshape(entry["shape"])
    return out


def safetensors_shapes(path):
    with open(path, "rb") as f:
        return [[k, v["shape"]] for k, v in read_header(f).items()]


def write_safetensors(path, tensors, metadata=None):
    names = {v: k for k, v in DTYPES.items()}
    header, blobs, at = {"__metadata__": metadata} if metadata else {}, [], 0
    for name, t in tensors.items():
        blob = t.contiguous().numpy().tobytes()
        header[name] = {
            "dtype": names[t.dtype],
            "shape": list(t.shape),
            "data_offsets": [at, at + len(blob)],
        }
        at += len(blob)
        blobs.append(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))

"""What half precision keeps of an update's gradients: troupe beside peers' arithmetic.

    python bench/half_precision.py --text book.txt

Needs PyTorch in Python (pip install torch==2.11.0 numpy), and a release build. A GPT of
2 blocks of width 64, one update from equal parameters over all rows of a text, by SGD, so
that the update of the fp32 weights tells the gradient. Each is held against fp32's, peers
against PyTorch's and troupe against its own, as its rows begin at another offset. "norm": the
gradient's norm over that of fp32; "error": the norm of the difference to fp32's gradient
over its norm; "zeros": elements of weights' gradients that are 0 and in fp32 are not.
Peers: Transformers trains by autocast (with GradScaler's 2^16 for fp16), Megatron-LM adds
16-bit gradients to main_grad in fp32; "16-bit .grad" is model.to(dtype) alone. Prints a
Markdown table.
"""

import json
import os
import struct
import tempfile

from runs import flags, heading, parser, peer, row, run

SHAPE = dict(d_model=64, layers=2, heads=4, seq=16)
RATE = 4096  # large, so that rounding the weights hides nothing
DTYPES = {"F32": "<f4", "F16": "<f2"}
# name: the arithmetic of peer_half_precision.py; the flags before the dtype
PEERS = {"Transformers": "autocast", "Megatron-LM": "main_grad", "16-bit .grad": "parameters"}
OURS = {"troupe --dtype": ["--dtype"], "troupe --autocast": ["--autocast"],
        "troupe --accumulate-dtype same": ["--accumulate-dtype", "same", "--dtype"]}


def read_safetensors(path):
    import numpy

    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        body = file.read()
    header.pop("__metadata__", None)
    return {name: numpy.frombuffer(body[slice(*at["data_offsets"])], DTYPES[at["dtype"]])
            .reshape(at["shape"]) for name, at in header.items() if at["dtype"] in DTYPES}


def update_of(a, place, words, rows):
    """What the step has subtracted from the fp32 weights."""
    folder = os.path.join(place, "run")
    run(["rm", "-rf", folder])
    run([a.troupe, "train", *flags(SHAPE), "--ranks", 1, "--text", os.path.join(place, "text"),
         "--validation-fraction", 0, "--microbatch-size", 1, "--microbatches", rows, "--steps", 1,
         "--optimizer", "sgd", "--lr", RATE, "--momentum", 0, "--weight-decay", 0, "--checkpoints",
         folder, "--initial", os.path.join(place, "initial.safetensors"), *words])
    saved = read_safetensors(os.path.join(folder, "step-00000001/part-00000.safetensors"))
    begin = read_safetensors(os.path.join(place, "initial.safetensors"))
    masters = {name: saved.get("optimizer/master/" + name, saved.get(name)) for name in begin}
    return {name: (begin[name] - masters[name]) / RATE for name in begin}


def compared(actual, right):
    import numpy

    def joined(of):
        return numpy.concatenate([of[name].ravel() for name in sorted(right)]).astype("f8")

    mine, theirs = joined(actual), joined(right)
    size = numpy.linalg.norm(theirs)
    weights = [name for name in right if right[name].ndim == 2]
    there = numpy.concatenate([right[name].ravel() != 0 for name in weights])
    lost = numpy.concatenate([actual[name].ravel() == 0 for name in weights]) & there
    return (f"{numpy.linalg.norm(mine) / size:.3f}",
            f"{100 * numpy.linalg.norm(mine - theirs) / size:.2f} %",
            f"{100 * lost.sum() / there.sum():.2f} %")


def main():
    a = parser(__doc__).parse_args()
    heading("update", "arithmetic", "norm", "error", "zeros")
    import numpy

    for rows in (8, 512, 4096):
        with tempfile.TemporaryDirectory() as place:
            text = os.path.join(place, "text")
            with open(a.text, "rb") as source, open(text, "wb") as target:
                target.write(source.read(rows * SHAPE["seq"] + 1))
            path = os.path.join(place, "initial.safetensors")
            run([a.troupe, "train", *flags(SHAPE), "--ranks", 1, "--text", text,
                 "--validation-fraction", 0, "--steps", 0, "--save-initial", path])
            round_to_bf16(path)
            numpy.savez(os.path.join(place, "initial.npz"), **read_safetensors(path))

            def of_peer(arithmetic, dtype="fp32", scale=1):
                out = os.path.join(place, "peer.npz")
                peer("peer_half_precision.py", "--arithmetic", arithmetic, "--dtype", dtype,
                     "--scale", scale, "--text", text, "--microbatches", rows,
                     "--initial", os.path.join(place, "initial.npz"), "--out", out, *flags(SHAPE))
                with numpy.load(out) as values:
                    return dict(values)

            right, own = of_peer("fp32"), update_of(a, place, [], rows)
            for dtype in ("bf16", "fp16"):
                case = f"{dtype}, {rows} microbatches"
                scale = 65536 if dtype == "fp16" else 1
                for name, arithmetic in PEERS.items():
                    row(case, name, *compared(of_peer(arithmetic, dtype, scale), right))
                for name, words in OURS.items():
                    row(case, name, *compared(update_of(a, place, [*words, dtype], rows), own))


def round_to_bf16(path):
    """All begin with parameters that 16 bits hold exactly."""
    import numpy

    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        head, body = file.read(size), bytearray(file.read())
    values = numpy.frombuffer(body, "<u4")
    numpy.bitwise_and(values, 0xFFFF0000, out=values)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", size) + head + body)


if __name__ == "__main__":
    main()

"""Train the byte GPT with PyTorch's data parallelism on CPU over gloo.

One process per replica: DistributedDataParallel, or FSDP2 (`fully_shard`, each
block a unit). Microbatches are accumulated, gradients synchronised with the last
one. The last line printed is one JSON object.
"""

import contextlib
import json

import torch
from torch.nn.parallel import DistributedDataParallel

import gpt
import measure
from peer_torch_pipelining import rank_of_group, result_of, run_ranks


def shard(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (torch.distributed.get_world_size(),))
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def accumulate(model, a, x, y):
    pieces = list(zip(x.split(a.microbatch_size), y.split(a.microbatch_size)))
    for k, (xs, ys) in enumerate(pieces):
        last = k + 1 == len(pieces)
        quiet = contextlib.nullcontext()
        if a.kind == "fsdp2":
            model.set_requires_gradient_sync(last)
        elif not last:
            quiet = model.no_sync()
        with quiet:
            (gpt.loss_fn(model(xs), ys) / a.microbatches).backward()


def rank_main(rank, ranks, store, a):
    with rank_of_group(rank, ranks, store, 300):
        model = gpt.GPTStage(a.d_model, a.layers, a.heads, a.seq)
        model = DistributedDataParallel(model) if a.kind == "ddp" else shard(model)
        # The fused update does not take FSDP2's sharded tensors on a CPU.
        opt = (gpt.make_optimizer(model.parameters()) if a.kind == "ddp"
               else torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=True))
        rows = a.microbatches * a.microbatch_size
        batches = gpt.make_batches(gpt.load_bytes(a.text), a.steps + 1, rows, a.seq, 1 + rank)

        def step(batch):
            accumulate(model, a, *batch)
            opt.step()
            opt.zero_grad(set_to_none=True)

        times = []
        for batch in batches:
            torch.distributed.barrier()
            times += measure.timed(step, [batch])
        return result_of(times[1:], [])


def main():
    ap = measure.parser(__doc__, steps=4)
    ap.add_argument("--kind", choices=("ddp", "fsdp2"), default="ddp")
    results = run_ranks(rank_main, ap.parse_args(), 2, 300)
    print(json.dumps({"step_s": max(r["step_s"] for r in results),
                      "rss_peak_mib": [r["rss_peak_mib"] for r in results]}))


if __name__ == "__main__":
    main()

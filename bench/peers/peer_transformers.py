"""Train a Llama of transformers with torch.distributed.pipelining over gloo.

One process per rank, on the CPU. Needs transformers in addition to PyTorch. The last
line printed is one JSON object.
"""

import json
import statistics

import torch
import torch.nn.functional as F

import measure
from peer_torch_pipelining import build_schedule, make_stage, rank_of_group, result_of, run_ranks


class LlamaStage(torch.nn.Module):
    """An equal share of the blocks; the embeddings are in front, the head behind."""

    def __init__(self, model, index, total):
        super().__init__()
        inner = model.model
        share = len(inner.layers) // total
        self.blocks = torch.nn.ModuleList(inner.layers[index * share : (index + 1) * share])
        self.rotary = inner.rotary_emb
        self.tokens = inner.embed_tokens if index == 0 else None
        self.norm = inner.norm if index == total - 1 else None
        self.head = model.lm_head if index == total - 1 else None

    def forward(self, x):
        if self.tokens is not None:
            x = self.tokens(x)
        places = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        angles = self.rotary(x, places)
        for block in self.blocks:
            x = block(x, position_ids=places, position_embeddings=angles)
            x = x[0] if isinstance(x, tuple) else x
        return x if self.head is None else self.head(self.norm(x))


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def rank_main(rank, ranks, store, a):
    from transformers import AutoModelForCausalLM

    with rank_of_group(rank, ranks, store, a.timeout):
        model = AutoModelForCausalLM.from_pretrained(a.model, attn_implementation="sdpa")
        part = LlamaStage(model, rank, ranks)
        del model
        stage = make_stage(part, rank, ranks)
        sched = build_schedule(a.schedule, [stage], a.microbatches, loss_of)
        opt = torch.optim.AdamW(part.parameters(), lr=3e-4)
        random = torch.Generator().manual_seed(1)
        shape = (a.microbatches * a.microbatch_size, a.seq + 1)
        batches = [torch.randint(0, a.vocabulary, shape, generator=random)
                   for _ in range(a.warmup + a.steps)]
        losses = []

        def step(ids):
            step_losses = []
            if rank == 0:
                sched.step(ids[:, :-1].contiguous())
            else:
                sched.step(target=ids[:, 1:].contiguous(), losses=step_losses)
            opt.step()
            opt.zero_grad(set_to_none=True)
            torch.distributed.barrier()
            if step_losses:
                losses.append(statistics.mean(x.item() for x in step_losses))

        times = measure.timed(step, batches)
        return result_of(times[a.warmup:], losses)


def main():
    ap = measure.parser(__doc__, vocabulary=256, steps=4, warmup=1)
    ap.add_argument("--model", required=True, help="a folder")
    ap.add_argument("--schedule", default="1f1b", choices=("gpipe", "1f1b"))
    ap.add_argument("--timeout", type=float, default=600)
    a = ap.parse_args()
    ranks = run_ranks(rank_main, a, 2, a.timeout)
    print(json.dumps({"step_s": ranks[0]["step_s"], "losses": ranks[1]["losses"],
                      "rss_peak_mib": [r["rss_peak_mib"] for r in ranks]}))


if __name__ == "__main__":
    main()

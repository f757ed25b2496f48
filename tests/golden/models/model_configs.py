"""Random configurations for make_models.py.

Between them, a type's cases vary every field that changes what transformers computes
for it. Numbers are drawn; kinds (of scaled rotary embeddings, of activations, of
shared heads) go round, each in another rhythm, so that all of them occur.
"""

TYPES = [
    "llama",
    "qwen2",
    "qwen3",
    "mistral",
    "olmo2",
    "gpt2",
    "gpt_neox",
    "mixtral",
    "qwen3_moe",
]
CASES = 10
ACTIVATIONS = [
    "silu",
    "gelu",
    "gelu_new",
    "gelu_pytorch_tanh",
    "relu",
    "quick_gelu",
    "gelu_fast",
    "tanh",
    "relu2",
    "mish",
    "sigmoid",
    "gelu_10",
    "leaky_relu",
    "hardswish",
    "relu6",
    "gelu_accurate",
    "gelu_python",
    "swish",
    "linear",
    "laplace",
]
ROPES = [
    "default",
    "linear",
    "dynamic",
    "llama3",
    "yarn",
    "longrope",
    "yarn_options",
    "longrope_short",
    "yarn_scales",
    "dynamic_short",
]


def rope(r, kind, half, length):
    """rope_parameters, but for rope_theta, and max_position_embeddings."""
    longer = length * 2
    if kind == "default":
        return {}, longer
    if kind == "linear":
        return {"rope_type": "linear", "factor": r.choice([1.5, 2.0, 4.0])}, longer
    if kind.startswith("dynamic"):
        most = longer if kind == "dynamic_short" else length - r.randint(3, 8)
        return {"rope_type": "dynamic", "factor": r.choice([1.5, 2.0, 8.0])}, most
    if kind == "llama3":
        low = r.choice([1.0, 0.5])
        options = {
            "rope_type": "llama3",
            "factor": r.choice([2.0, 8.0]),
            "low_freq_factor": low,
            "high_freq_factor": low * r.choice([3.0, 4.0]),
            "original_max_position_embeddings": r.choice([24, 40]),
        }
        return options, 80
    if kind.startswith("longrope"):
        original = length + 5 if kind == "longrope_short" else length - r.randint(3, 8)
        options = {
            "rope_type": "longrope",
            "short_factor": [round(r.uniform(1, 2), 3) for _ in range(half)],
            "long_factor": [round(r.uniform(1, 6), 3) for _ in range(half)],
            "original_max_position_embeddings": original,
        }
        if kind == "longrope_short":
            options |= r.choice([{"attention_factor": 1.25}, {"factor": 3.0}])
        return options, original * 4
    original = r.choice([4, 8, 16, 64])
    options = {
        "rope_type": "yarn",
        "factor": r.choice([2.0, 4.0]),
        "original_max_position_embeddings": original,
    }
    if kind == "yarn_options":
        options["original_max_position_embeddings"] = original = 64
        options |= {"beta_fast": r.choice([1.5, 2]), "beta_slow": r.choice([0.1, 0.25])}
        options |= r.choice([{"truncate": False}, {"truncate": False, "factor": None}])
        options |= r.choice([{}, {"attention_factor": 0.9}])
    if kind == "yarn_scales":
        options |= {"mscale": r.choice([0.7, 1.0]), "mscale_all_dim": 0.5}
        options |= {"beta_fast": 2, "beta_slow": 0.2}
    return options, int(original * 4)


def theta(r, kind):
    """Small where large ones would leave little to see of the options."""
    if kind.startswith("yarn"):
        return r.choice([20.0, 500.0])
    if kind == "llama3" or kind.startswith("dynamic"):
        return r.choice([100.0, 1000.0])
    return r.choice([100.0, 10000.0, 500000.0])


def heads(r, k):
    """All heads, and those of keys: one, some or all of them."""
    keys, share = [
        (1, r.choice([2, 3, 4])),
        (r.choice([2, 3]), 2),
        (r.choice([2, 3, 4]), 1),
    ][k % 3]
    return keys * share, keys


def rotary_fields(r, kind, k):
    """What the types with rotary embeddings and gated layers have in common."""
    length = r.randint(12, 20)
    all_heads, keys = heads(r, k)
    natural = r.choice([4, 6, 8])
    turn = (k + TYPES.index(kind)) % CASES
    scaling = ROPES[turn]
    wide = scaling.startswith(("yarn", "llama3", "dynamic"))
    others = [d for d in (6, 8, 10, 12, 16) if d != natural and (d > 8 or not wide)]
    dim = r.choice(others) if k % 2 or wide else natural
    parameters, most = rope(r, scaling, dim // 2, length)
    # Of Mixtral, these fail in transformers without head_dim.
    fails = kind == "mixtral" and scaling.startswith(("dynamic", "yarn", "longrope"))
    fields = {
        "vocab_size": r.randrange(37, 98, 2),
        "hidden_size": all_heads * natural,
        "intermediate_size": r.randint(11, 40),
        "num_hidden_layers": [2, 1, 3][(k + turn // 4) % 3],
        "num_attention_heads": all_heads,
        "num_key_value_heads": keys,
        "hidden_act": ACTIVATIONS[(3 * k + TYPES.index(kind)) % len(ACTIVATIONS)]
        if k % 4
        else "silu",
        "max_position_embeddings": most,
        "rms_norm_eps": [1e-5, 1e-6, 1e-3][(k // 2) % 3],
        "tie_word_embeddings": k % 5 in (1, 3),
        "rope_parameters": parameters | {"rope_theta": theta(r, scaling)},
        "pad_token_id": "used" if k % 4 == 2 else None,
    }
    if fails or dim != natural:
        fields["head_dim"] = dim
    return fields, length


def llama(r, k):
    fields, length = rotary_fields(r, "llama", k)
    fields |= {"attention_bias": k % 4 in (1, 2), "mlp_bias": k % 4 in (2, 3)}
    return fields, length


def windows(r, k, layers, length):
    """Sliding windows of Qwen2 and Qwen3: none, some layers by either field, all."""
    window = r.randint(2, length - 4)
    if k % 5 == 0:
        return {}
    if k % 5 == 1:
        return {"use_sliding_window": False, "sliding_window": window}
    on = {"use_sliding_window": True, "sliding_window": window}
    if k % 5 == 2:
        return on | {"max_window_layers": 0}
    layers = max(layers, 2)
    on["num_hidden_layers"] = layers
    if k % 5 == 3:
        return on | {"max_window_layers": layers - 1}
    kinds = ["sliding_attention", "full_attention", "sliding_attention"]
    return on | {"layer_types": kinds[:layers]}


def qwen2(r, k):
    fields, length = rotary_fields(r, "qwen2", k)
    fields |= windows(r, k, fields["num_hidden_layers"], length)
    return fields, length


def qwen3(r, k):
    fields, length = rotary_fields(r, "qwen3", k)
    natural = fields["hidden_size"] // fields["num_attention_heads"]
    fields.setdefault("head_dim", natural)
    fields |= windows(r, k, fields["num_hidden_layers"], length)
    return fields | {"attention_bias": k % 4 in (1, 2)}, length


def mistral(r, k):
    fields, length = rotary_fields(r, "mistral", k)
    window = [None, r.randint(2, length - 2), length + 3, r.randint(2, 4)][k % 4]
    return fields | {"sliding_window": window}, length


def olmo2(r, k):
    fields, length = rotary_fields(r, "olmo2", k)
    return fields | {"attention_bias": k % 4 in (1, 2)}, length


def gpt2(r, k):
    length = r.randint(12, 20)
    all_heads = r.choice([1, 2, 3, 4])
    width = all_heads * r.choice([5, 6, 8, 11])
    return {
        "vocab_size": r.randrange(37, 98, 2),
        "n_positions": length + r.choice([0, 1, 7]),
        "n_embd": width,
        "n_layer": [2, 3, 1][k % 3],
        "n_head": all_heads,
        "n_inner": [None, r.randint(9, 50)][k % 2],
        "activation_function": "gelu_new" if k % 3 == 0 else ACTIVATIONS[2 * k + 1],
        "layer_norm_epsilon": [1e-5, 1e-6, 1e-3][(k // 2) % 3],
        "scale_attn_weights": k % 4 != 1,
        "scale_attn_by_inverse_layer_idx": k % 5 in (1, 3, 4),
        "reorder_and_upcast_attn": k % 6 in (2, 3),
        "tie_word_embeddings": k % 4 != 3,
        "resid_pdrop": 0.0,
        "embd_pdrop": 0.0,
        "attn_pdrop": 0.0,
    }, length


def gpt_neox(r, k):
    length = r.randint(12, 20)
    scaling, all_heads = ROPES[k], r.choice([1, 2, 3, 4])
    dim, share = [
        (12, 0.25),  # 3, which is odd: 4 elements are rotated
        (16, 1.0),
        (12, 0.5),
        (28, 0.25),
        (16, 0.5),
        (16, 0.25),
        (12, 1.0),
        (8, 0.5),
        (24, 0.5),
        (12, 0.25),
    ][k]
    parameters, most = rope(r, scaling, int(dim * share) // 2, length)
    parameters |= {"rope_theta": theta(r, scaling), "partial_rotary_factor": share}
    return {
        "vocab_size": r.randrange(37, 98, 2),
        "hidden_size": all_heads * dim,
        "intermediate_size": r.randint(11, 50),
        "num_hidden_layers": [2, 3, 1][(k + k // 3) % 3],
        "num_attention_heads": all_heads,
        "hidden_act": "gelu" if k % 3 == 0 else ACTIVATIONS[19 - 2 * k],
        "max_position_embeddings": most,
        "layer_norm_eps": [1e-5, 1e-6, 1e-3][(k // 2) % 3],
        "use_parallel_residual": k % 2 == 0,
        "attention_bias": k % 4 != 1,
        "tie_word_embeddings": k % 5 in (1, 3),
        "rope_parameters": parameters,
    }, length


def mixtral(r, k):
    fields, length = rotary_fields(r, "mixtral", k)
    experts = r.choice([3, 4, 6])
    return fields | {
        "sliding_window": r.randint(2, length - 2) if k % 3 == 1 else None,
        "num_local_experts": experts,
        "num_experts_per_tok": [2, 1, 3, experts][k % 4],
        "output_router_logits": k % 2 == 1,
        "router_aux_loss_coef": r.choice([0.001, 0.02, 0.5]),
    }, length


def qwen3_moe(r, k):
    fields, length = rotary_fields(r, "qwen3_moe", k)
    layers, experts = fields["num_hidden_layers"], r.choice([3, 5, 8])
    plain = [r.choice([0, 2])] if layers > 2 and k % 2 else []
    return fields | {
        "attention_bias": k % 4 in (1, 2),
        "use_sliding_window": k % 3 == 1,
        "sliding_window": r.randint(2, length - 2),
        "num_experts": 0 if k == 6 else experts,
        "num_experts_per_tok": [2, 3, 1, experts][k % 4],
        "moe_intermediate_size": r.randint(5, 20),
        "norm_topk_prob": k % 2 == 0,
        "decoder_sparse_step": 2 if layers > 1 and k % 3 == 0 else 1,
        "mlp_only_layers": plain,
        "output_router_logits": k % 4 in (1, 2) and k != 6,
        "router_aux_loss_coef": r.choice([0.001, 0.02, 0.5]),
    }, length


def random_config(r, kind, k):
    """Case k's fields, and the length of its rows."""
    return globals()[kind](r, k)


def older_fields(config, k):
    """The same model as transformers 4.40 wrote it."""
    old = dict(config)
    old["torch_dtype"] = old.pop("dtype")
    old["transformers_version"] = "4.40.0"
    kind = old["model_type"]
    parameters = dict(old.pop("rope_parameters", {}))
    if kind == "gpt_neox":
        old["rotary_emb_base"] = parameters.pop("rope_theta")
        old["rotary_pct"] = parameters.pop("partial_rotary_factor")
    elif kind != "gpt2":
        old["rope_theta"] = parameters.pop("rope_theta")
    if parameters:
        name = parameters.pop("rope_type")
        # Newer ones of the 4s name the kind rope_type, older ones type.
        parameters["rope_type" if name == "llama3" or k % 2 else "type"] = name
        if name == "longrope" and k % 2:  # as Phi 3 has it
            old["original_max_position_embeddings"] = parameters.pop(
                "original_max_position_embeddings"
            )
        old["rope_scaling"] = parameters if name != "default" else None
    if old.get("num_key_value_heads") == old.get("num_attention_heads") and k % 2:
        if kind in ("llama", "olmo2"):
            del old["num_key_value_heads"]
    natural = old.get("hidden_size", 0) // old.get("num_attention_heads", 1)
    if kind in ("llama", "mistral") and old["head_dim"] == natural:
        del old["head_dim"]
    if kind == "mixtral" and old["head_dim"] is None:
        del old["head_dim"]
    if kind in ("qwen2", "qwen3"):
        first = old["max_window_layers"]
        by_rule = [
            "sliding_attention"
            if old["use_sliding_window"] and i >= first
            else "full_attention"
            for i in range(old["num_hidden_layers"])
        ]
        if old["layer_types"] == by_rule:
            del old["layer_types"]
    if kind in ("qwen2", "qwen3", "qwen3_moe") and not old["use_sliding_window"]:
        old["sliding_window"] = 3  # written, but not used
    if kind == "llama" and not (old["attention_bias"] or old["mlp_bias"]):
        del old["attention_bias"], old["mlp_bias"]
    if kind == "qwen3_moe":  # version 5 writes Mixtral's name
        old["num_experts"] = old.pop("num_local_experts")
    if kind == "gpt2":
        old["n_ctx"] = old["n_positions"]
    return old

"""The module cases of tools/make_training_goldens.py: modules with weights copied, their outputs and
the gradients of inputs and parameters; and the names of their tensors."""
import torch

from make_optim_goldens import add, f32, module_case, random

nn = torch.nn


def case(name, module, named, call):
    module_case(name, module, [(n, t.clone()) for n, t in named], call)


def recurrent():
    x = random("seq x", 4, 3, 5)
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        def run(m, a, *states, kind=kind):
            state = (states if kind is nn.LSTM else states[0]) if states else None
            out, h = m(a, state)
            return [out, *h] if kind is nn.LSTM else [out, h]

        def states(layers, directions, width=4, cell=4):
            h = ("h", random("seq h", layers * directions, 3, width))
            c = ("c", random("seq c", layers * directions, 3, cell))
            return [h, c] if kind is nn.LSTM else [h]

        case("plain", kind(5, 4), [("x", x)], run)
        case("states", kind(5, 4, num_layers=2), [("x", x)] + states(2, 1), run)
        case("both", kind(5, 4, num_layers=2, bidirectional=True), [("x", x)] + states(2, 2), run)
        case("batch_first", kind(5, 4, batch_first=True, bidirectional=True, bias=False),
             [("x", x.transpose(0, 1).contiguous())], run)
        case("single", kind(5, 4, num_layers=2), [("x", x[:, 0].contiguous())], run)

        def packed(m, a, kind=kind):
            p = nn.utils.rnn.pack_padded_sequence(a, torch.tensor([3, 4, 1]), enforce_sorted=False)
            out, h = m(p)
            out = nn.utils.rnn.pad_packed_sequence(out)[0]
            return [out, *h] if kind is nn.LSTM else [out, h]

        case("packed", kind(5, 4, num_layers=2, bidirectional=True), [("x", x)], packed)
    case("projected", nn.LSTM(5, 4, num_layers=2, proj_size=3, bidirectional=True), [("x", x)],
         lambda m, a: [m(a)[0], *m(a)[1]])
    case("relu", nn.RNN(5, 4, nonlinearity="relu"), [("x", x)], lambda m, a: list(m(a)))


CAUSAL = torch.triu(torch.ones(4, 4, dtype=torch.bool), 1)
PADDING = torch.tensor([[0, 0, 0, 1, 1], [0, 0, 0, 0, 0]], dtype=torch.bool)


def attention():
    q, k, v = (random(f"mha {n}", length, 2, 6) for n, length in (("q", 4), ("k", 5), ("v", 5)))
    qkv = [("query", q), ("key", k), ("value", v)]

    def mha(**kw):
        return nn.MultiheadAttention(6, 2, **kw)

    def out(m, a, b, c, **kw):
        y, w = m(a, b, c, **kw)
        return [y] if w is None else [y, w]

    case("attend_plain", mha(), qkv, out)
    case("attend_heads", mha(), qkv, lambda m, *t: out(m, *t, average_attn_weights=False))
    case("attend_padding", mha(), qkv, lambda m, *t: out(m, *t, key_padding_mask=PADDING))
    case("attend_quiet", mha(), qkv,
         lambda m, *t: out(m, *t, key_padding_mask=PADDING, need_weights=False))
    added = random("mha mask", 4, 5)
    case("attend_added", mha(), qkv + [("mask", added)],
         lambda m, *t: out(m, *t[:3], attn_mask=t[3]))
    case("attend_3d", mha(), qkv + [("mask", random("mha mask 3d", 4, 4, 5))],
         lambda m, *t: out(m, *t[:3], attn_mask=t[3]))
    case("attend_causal", mha(), [("query", q)],
         lambda m, a: out(m, a, a, a, attn_mask=CAUSAL))
    case("attend_extra", mha(add_bias_kv=True, add_zero_attn=True), qkv + [("mask", added)],
         lambda m, *t: out(m, *t[:3], key_padding_mask=PADDING, attn_mask=t[3]))
    case("attend_dims", mha(kdim=7, vdim=3), [("query", q), ("key", random("mha k7", 5, 2, 7)),
                                              ("value", random("mha v3", 5, 2, 3))], out)
    case("attend_batch_first", mha(batch_first=True),
         [(n, t.transpose(0, 1).contiguous()) for n, t in qkv], out)
    case("attend_single", mha(), [(n, t[:, 0].contiguous()) for n, t in qkv],
         lambda m, *t: out(m, *t, key_padding_mask=PADDING[0]))


def transformer():
    src, memory = random("tr src", 4, 2, 6), random("tr memory", 5, 2, 6)
    for name, kw in {"plain": {}, "norm_first": dict(norm_first=True),
                     "gelu": dict(activation="gelu", batch_first=True)}.items():
        kw = dict(dim_feedforward=8, dropout=0.0, **kw)
        x, m = (src.transpose(0, 1).contiguous(), memory.transpose(0, 1).contiguous()) \
            if kw.get("batch_first") else (src, memory)
        case(name, nn.TransformerEncoderLayer(6, 2, **kw), [("src", x)], lambda l, a: [l(a)])
        case(name, nn.TransformerDecoderLayer(6, 2, **kw), [("tgt", x), ("memory", m)],
             lambda l, a, b: [l(a, b)])
    kw = dict(dim_feedforward=8, dropout=0.0)
    pad = PADDING[:, 1:]
    case("masked", nn.TransformerEncoderLayer(6, 2, **kw), [("src", src)],
         lambda l, a: [l(a, src_mask=CAUSAL, src_key_padding_mask=pad[:, :4])])
    case("masked", nn.TransformerDecoderLayer(6, 2, **kw), [("tgt", src), ("memory", memory)],
         lambda l, a, b: [l(a, b, tgt_mask=CAUSAL, memory_key_padding_mask=PADDING)])
    case("two", nn.TransformerEncoder(nn.TransformerEncoderLayer(6, 2, **kw), 2,
                                      norm=nn.LayerNorm(6)), [("src", src)], lambda l, a: [l(a)])
    case("two", nn.TransformerDecoder(nn.TransformerDecoderLayer(6, 2, **kw), 2,
                                      norm=nn.LayerNorm(6)),
         [("tgt", src), ("memory", memory)], lambda l, a, b: [l(a, b)])


INDICES = torch.tensor([[1, 4, 2], [0, 3, 3], [2, 2, 2]])
OFFSETS = torch.tensor([0, 2, 2, 5])


def others():
    for mode in ("sum", "mean", "max"):
        case(f"rows_{mode}", nn.EmbeddingBag(5, 4, mode=mode, padding_idx=2), [],
             lambda m: [m(INDICES)])
        case(f"flat_{mode}", nn.EmbeddingBag(5, 4, mode=mode), [],
             lambda m: [m(INDICES.flatten(), OFFSETS)])
    case("weighted", nn.EmbeddingBag(5, 4, mode="sum"), [("weights", random("bag w", 3, 3))],
         lambda m, w: [m(INDICES, per_sample_weights=w)])
    x = random("conv x", 2, 3, 6, 7)
    for mode in ("reflect", "replicate", "circular"):
        case(mode, nn.Conv2d(3, 4, (3, 2), padding=(2, 1), padding_mode=mode), [("x", x)],
             lambda m, a: [m(a)])
    case("same_reflect", nn.Conv2d(3, 4, (3, 2), padding="same", padding_mode="reflect"),
         [("x", x)], lambda m, a: [m(a)])
    case("weight_norm", nn.utils.weight_norm(nn.Linear(5, 3)), [("x", random("wn x", 2, 5))],
         lambda m, a: [m(a)])
    case("weight_norm", nn.utils.weight_norm(nn.Conv2d(3, 4, 2), dim=1), [("x", x)],
         lambda m, a: [m(a)])
    spectral()


def spectral():
    """Inputs also hold the vectors that iteration starts from; outputs of two calls, gradients none."""
    m = nn.utils.spectral_norm(nn.Linear(5, 3)).double()
    inputs = [("x", random("sn x", 2, 5))]
    for name, t in list(m.named_parameters()) + list(m.named_buffers()):
        t.data = random("sn " + name, *t.shape)
        if name in ("weight_u", "weight_v"):
            t.data = nn.functional.normalize(t.data, dim=0)
        inputs.append((name, t.detach().clone()))
    out = [m(inputs[0][1]), m(inputs[0][1])]
    m.eval()
    out.append(m(inputs[0][1]))
    add("Linear/spectral_norm", "SpectralNorm", {}, [(n, f32(t)) for n, t in inputs],
        [(f32(o), None) for o in out])


def state_dicts():
    def encoder(**kw):
        return nn.TransformerEncoderLayer(6, 2, dim_feedforward=8, **kw)

    for name, m in {
            "LSTM": nn.LSTM(3, 4, num_layers=2, bidirectional=True, proj_size=2),
            "GRU_no_bias": nn.GRU(3, 4, num_layers=2, bias=False), "RNN": nn.RNN(3, 4),
            "Multihead_all": nn.MultiheadAttention(6, 2, kdim=5, vdim=4, add_bias_kv=True),
            "EncoderLayer": encoder(),
            "DecoderLayer": nn.TransformerDecoderLayer(6, 2, dim_feedforward=8),
            "Encoder": nn.TransformerEncoder(encoder(), 2, norm=nn.LayerNorm(6)),
            "EmbeddingBag": nn.EmbeddingBag(5, 4),
            "WeightNorm": nn.utils.weight_norm(nn.Linear(3, 2)),
            "SpectralNorm": nn.utils.spectral_norm(nn.Conv2d(3, 2, 2)),
            "Plain": nn.Sequential(nn.ReLU(), nn.Linear(3, 2), nn.MaxPool2d(2), nn.Flatten()),
    }.items():
        state = "".join(" ".join([n, *map(str, t.shape)]) + "\n" for n, t in
                        m.state_dict().items())
        add(f"module_state/{name}", "module_state", dict(state=state), [], [])


def modules():
    for family in (recurrent, attention, transformer, others, state_dicts):
        family()

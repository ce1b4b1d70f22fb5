"""The networks of `mote bench wide` in PyTorch; names of parameters are those of the other side."""
import torch
from torch import nn
from torch.nn import functional as F


def linear(i, o, bias=True):
    return nn.Linear(i, o, bias)


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = linear(784, 256), linear(256, 128), linear(128, 10)

    def forward(self, x):
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))


class Mnist(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 5), nn.Conv2d(32, 32, 5)
        self.bn1 = nn.BatchNorm2d(32)
        self.conv3, self.conv4 = nn.Conv2d(32, 64, 3), nn.Conv2d(64, 64, 3)
        self.bn2 = nn.BatchNorm2d(64)
        self.fc = linear(576, 10)

    def forward(self, x):
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        x = F.max_pool2d(self.bn1(x), 2)
        x = torch.relu(self.conv4(torch.relu(self.conv3(x))))
        return self.fc(F.max_pool2d(self.bn2(x), 2).flatten(1))


def plain_conv(i, o, k, stride):
    return nn.Conv2d(i, o, k, stride, k // 2, bias=False)


class ResBlock(nn.Module):
    def __init__(self, i, width, stride, bottleneck):
        super().__init__()
        o = width * 4 if bottleneck else width
        if bottleneck:
            self.conv1, self.conv2 = plain_conv(i, width, 1, 1), plain_conv(width, width, 3, stride)
            self.conv3, self.bn3 = plain_conv(width, o, 1, 1), nn.BatchNorm2d(o)
        else:
            self.conv1, self.conv2 = plain_conv(i, width, 3, stride), plain_conv(width, width, 3, 1)
            self.conv3 = None
        self.bn1, self.bn2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        self.downsample = None
        if stride != 1 or i != o:
            self.downsample = nn.Sequential(plain_conv(i, o, 1, stride), nn.BatchNorm2d(o))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu_(self.bn1(self.conv1(x)))))
        if self.conv3 is not None:
            y = self.bn3(self.conv3(torch.relu_(y)))
        return torch.relu_(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, depths, bottleneck):
        super().__init__()
        self.conv1, self.bn1 = plain_conv(3, 64, 7, 2), nn.BatchNorm2d(64)
        i = 64
        for s, depth in enumerate(depths):
            width, blocks = 64 << s, []
            for n in range(depth):
                blocks.append(ResBlock(i, width, 2 if n == 0 and s > 0 else 1, bottleneck))
                i = width * 4 if bottleneck else width
            setattr(self, f"layer{s + 1}", nn.Sequential(*blocks))
        self.fc = linear(i, 1000)

    def forward(self, x):
        x = F.max_pool2d(torch.relu_(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class ConvBn(nn.Module):
    def __init__(self, i, o, k, stride=1, groups=1, padding=None):
        super().__init__()
        padding = k // 2 if padding is None else padding
        self.conv = nn.Conv2d(i, o, k, stride, padding, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(o)

    def forward(self, x):
        return self.bn(self.conv(x))


class MobileBlock(nn.Module):
    def __init__(self, i, o, stride, widen):
        super().__init__()
        wide = i * widen
        self.expand = ConvBn(i, wide, 1) if widen > 1 else None
        self.depthwise = ConvBn(wide, wide, 3, stride, wide)
        self.project = ConvBn(wide, o, 1)
        self.skips = stride == 1 and i == o

    def forward(self, x):
        y = x if self.expand is None else F.relu6(self.expand(x), inplace=True)
        y = self.project(F.relu6(self.depthwise(y), inplace=True))
        return x + y if self.skips else y


class MobileNetV2(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = ConvBn(3, 32, 3, 2)
        i, blocks = 32, []
        for widen, o, count, stride in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                        (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]:
            for n in range(count):
                blocks.append(MobileBlock(i, o, stride if n == 0 else 1, widen))
                i = o
        self.blocks = nn.Sequential(*blocks)
        self.head, self.fc = ConvBn(320, 1280, 1), linear(1280, 1000)

    def forward(self, x):
        x = self.blocks(F.relu6(self.stem(x), inplace=True))
        return self.fc(F.relu6(self.head(x), inplace=True).mean((2, 3)))


def attend(q, k, v, mask=None):
    # As 1.13's own modules do: the scaled product before softmax.
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return scores.softmax(-1) @ v


def split_heads(x, heads):
    return x.unflatten(-1, (heads, x.shape[-1] // heads)).transpose(1, 2)


def join_heads(x):
    return x.transpose(1, 2).flatten(2)


class VitBlock(nn.Module):
    def __init__(self, n=192):
        super().__init__()
        self.norm1, self.qkv, self.proj = nn.LayerNorm(n), linear(n, 3 * n), linear(n, n)
        self.norm2, self.fc1, self.fc2 = nn.LayerNorm(n), linear(n, 4 * n), linear(4 * n, n)

    def forward(self, x):
        q, k, v = (split_heads(t, 3) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.proj(join_heads(attend(q, k, v)))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


class Vit(nn.Module):
    def __init__(self, n=192):
        super().__init__()
        self.patch = nn.Conv2d(3, n, 16, 16)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, n))
        self.positions = nn.Parameter(torch.zeros(1, 197, n))
        self.blocks = nn.Sequential(*(VitBlock() for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(n), linear(n, 1000)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        return self.head(self.norm(self.blocks(x))[:, 0])


class UNetBlock(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(i, o, 3, padding=1, bias=False), nn.GroupNorm(8, o)
        self.conv2, self.norm2 = nn.Conv2d(o, o, 3, padding=1, bias=False), nn.GroupNorm(8, o)

    def forward(self, x):
        return F.silu(self.norm2(self.conv2(F.silu(self.norm1(self.conv1(x))))))


class UNetUp(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.grow, self.block = nn.ConvTranspose2d(i, o, 2, 2), UNetBlock(2 * o, o)


class UNet(nn.Module):
    def __init__(self, features=(32, 64, 128, 256)):
        super().__init__()
        sizes = (3,) + features
        self.down = nn.ModuleList(UNetBlock(*p) for p in zip(sizes, features))
        back = features[::-1]
        self.up = nn.ModuleList(UNetUp(*p) for p in zip(back, back[1:]))
        self.head = nn.Conv2d(features[0], 1, 1)

    def forward(self, x):
        passed = []
        for block in self.down:
            x = block(F.max_pool2d(x, 2) if passed else x)
            passed.append(x)
        for u in self.up:
            passed.pop()
            x = u.block(torch.cat([passed[-1], u.grow(x)], 1))
        return self.head(x)

    def loss(self, x, wanted):
        return F.binary_cross_entropy_with_logits(self(x), wanted)


class Holder(nn.Module):
    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


def bert_output(i, o):
    return Holder(dense=linear(i, o), LayerNorm=nn.LayerNorm(o, 1e-12))


class BertLayer(nn.Module):
    def __init__(self, n, hidden, heads):
        super().__init__()
        self.heads = heads
        own = Holder(query=linear(n, n), key=linear(n, n), value=linear(n, n))
        self.attention = Holder(self_=own, output=bert_output(n, n))
        self.intermediate = Holder(dense=linear(n, hidden))
        self.output = bert_output(hidden, n)

    def forward(self, x, mask):
        own = self.attention.self_
        q, k, v = (split_heads(p(x), self.heads) for p in (own.query, own.key, own.value))
        out = self.attention.output
        x = out.LayerNorm(out.dense(join_heads(attend(q, k, v, mask))) + x)
        return self.output.LayerNorm(self.output.dense(F.gelu(self.intermediate.dense(x))) + x)


class Bert(nn.Module):
    def __init__(self, n=768):
        super().__init__()
        embeddings = Holder(word_embeddings=nn.Embedding(30522, n),
                            position_embeddings=nn.Embedding(512, n),
                            token_type_embeddings=nn.Embedding(2, n),
                            LayerNorm=nn.LayerNorm(n, 1e-12))
        layers = nn.ModuleList(BertLayer(n, 3072, 12) for _ in range(12))
        self.bert = Holder(embeddings=embeddings, encoder=Holder(layer=layers),
                           pooler=Holder(dense=linear(n, n)))
        transform = Holder(dense=linear(n, n), LayerNorm=nn.LayerNorm(n, 1e-12))
        predictions = Holder(bias=nn.Parameter(torch.zeros(30522)), transform=transform)
        self.cls = Holder(predictions=predictions, seq_relationship=linear(n, 2))

    def forward(self, ids):
        e = self.bert.embeddings
        x = e.word_embeddings(ids) + e.position_embeddings.weight[: ids.shape[1]]
        x = e.LayerNorm(x + e.token_type_embeddings(torch.zeros_like(ids)))
        mask = torch.ones_like(ids).ne(0)[:, None, None]
        for layer in self.bert.encoder.layer:
            x = layer(x, mask)
        return x

    def loss(self, ids, masked, words, follows):
        x = self(ids)
        at = torch.take_along_dim(x, masked[..., None].expand(-1, -1, x.shape[2]), 1)
        t = self.cls.predictions.transform
        logits = F.linear(t.LayerNorm(F.gelu(t.dense(at))),
                          self.bert.embeddings.word_embeddings.weight, self.cls.predictions.bias)
        pooled = torch.tanh(self.bert.pooler.dense(x[:, 0]))
        return (F.cross_entropy(logits.flatten(0, 1), words.flatten())
                + F.cross_entropy(self.cls.seq_relationship(pooled), follows))


class GptBlock(nn.Module):
    def __init__(self, n, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.attn = Holder(c_attn=linear(n, 3 * n), c_proj=linear(n, n))
        self.mlp = Holder(c_fc=linear(n, 4 * n), c_proj=linear(4 * n, n))

    def forward(self, x, mask):
        q, k, v = (split_heads(t, self.heads) for t in self.attn.c_attn(self.ln_1(x)).chunk(3, -1))
        x = x + self.attn.c_proj(join_heads(attend(q, k, v, mask)))
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, layers=4, heads=4, n=128, context=64, vocabulary=65):
        super().__init__()
        blocks = nn.ModuleList(GptBlock(n, heads) for _ in range(layers))
        self.transformer = Holder(wte=nn.Embedding(vocabulary, n), wpe=nn.Embedding(context, n),
                                  h=blocks, ln_f=nn.LayerNorm(n))
        self.mask = torch.ones(context, context, dtype=torch.bool).tril()

    def forward(self, tokens):
        length, t = tokens.shape[1], self.transformer
        x = t.wte(tokens) + t.wpe.weight[:length]
        for block in t.h:
            x = block(x, self.mask[:length, :length])
        return F.linear(t.ln_f(x), t.wte.weight)


class Dcgan(nn.Module):
    def __init__(self):
        super().__init__()
        up, i = [], 100
        for o in (512, 256, 128, 64):
            shape = (1, 0) if i == 100 else (2, 1)
            up.append(Holder(conv=nn.ConvTranspose2d(i, o, 4, *shape, bias=False),
                             bn=nn.BatchNorm2d(o)))
            i = o
        last = nn.ConvTranspose2d(i, 3, 4, 2, 1, bias=False)
        self.generator = Holder(up=nn.ModuleList(up), last=last)
        down = nn.ModuleList(ConvBn(o // 2, o, 4, 2, padding=1) for o in (128, 256, 512))
        self.discriminator = Holder(first=nn.Conv2d(3, 64, 4, 2, 1, bias=False), down=down,
                                    last=nn.Conv2d(512, 1, 4, bias=False))

    def forward(self, z):
        for u in self.generator.up:
            z = torch.relu_(u.bn(u.conv(z)))
        return torch.tanh(self.generator.last(z))

    def judge(self, x, wanted):
        d = self.discriminator
        x = F.leaky_relu(d.first(x), 0.2)
        for down in d.down:
            x = F.leaky_relu(down(x), 0.2)
        y = d.last(x).flatten()
        return F.binary_cross_entropy_with_logits(y, torch.full_like(y, wanted))

    def phases(self):
        def tell(z, real):
            return self.judge(real, 1) + self.judge(self(z).detach(), 0)

        def deceive(z, real):
            return self.judge(self(z), 1)

        return [(self.discriminator.parameters(), tell), (self.generator.parameters(), deceive)]


class LstmText(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(1000, 256)
        self.layers = nn.ModuleList(nn.LSTM(256, 256) for _ in range(2))
        self.head = linear(256, 1000)

    def forward(self, tokens):
        x = self.words(tokens)
        for layer in self.layers:
            x = layer(x)[0]
        return self.head(x)


MODELS = {
    "mlp": Mlp,
    "mnist": Mnist,
    "resnet18": lambda: ResNet((2, 2, 2, 2), False),
    "resnet50": lambda: ResNet((3, 4, 6, 3), True),
    "mobilenetv2": MobileNetV2,
    "vit_tiny": Vit,
    "lstm": LstmText,
    "gpt2": lambda: Gpt(12, 12, 768, 1024, 50257),
    "gpt_small": Gpt,
    "unet": UNet,
    "bert": Bert,
    "dcgan": Dcgan,
}

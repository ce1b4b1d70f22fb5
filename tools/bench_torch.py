"""The MNIST training step of `mote bench cpu` in PyTorch: FILE BATCH THREADS.

FILE holds floats: images, labels, then the parameters in the order of the modules below. Says
"ready", then does a step for each line that it reads and answers with the loss.
"""
import sys

import torch
from torch import nn


class MnistNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 5)
        self.conv2 = nn.Conv2d(32, 32, 5)
        self.bn1 = nn.BatchNorm2d(32)
        self.conv3 = nn.Conv2d(32, 64, 3)
        self.conv4 = nn.Conv2d(64, 64, 3)
        self.bn2 = nn.BatchNorm2d(64)
        self.fc = nn.Linear(576, 10)

    def forward(self, x):
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        x = torch.max_pool2d(self.bn1(x), 2)
        x = torch.relu(self.conv4(torch.relu(self.conv3(x))))
        x = torch.max_pool2d(self.bn2(x), 2)
        return self.fc(x.flatten(1))


def main():
    path, batch, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(threads)
    with open(path, "rb") as file:
        values = torch.frombuffer(bytearray(file.read()), dtype=torch.float32)

    at = 0

    def take(shape):
        nonlocal at
        count = torch.Size(shape).numel()
        at += count
        return values[at - count : at].reshape(shape).clone()

    images = take((batch, 1, 28, 28))
    labels = take((batch,)).long()
    net = MnistNet()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(take(parameter.shape))
    if at != len(values):
        sys.exit(f"{path} has {len(values)} floats, {at} were read")
    adam = torch.optim.Adam(net.parameters())

    print("ready", flush=True)
    for _ in sys.stdin:
        adam.zero_grad()
        loss = nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        adam.step()
        print(loss.item(), flush=True)


main()

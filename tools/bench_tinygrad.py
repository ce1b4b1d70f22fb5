#!/usr/bin/env python3
"""tinygrad's host time for the MNIST rows of `mote bench host`, on its NULL device.

`mote bench host --tinygrad CHECKOUT` runs it; each line it prints is a row's name and its
milliseconds. The step is that of the row: parameters, optimizer state and inputs
are buffers, the loss and all updates are realized together, disk caches are off.
"""
import os
import statistics
import sys
import time

os.environ.update(DEV="NULL", CACHELEVEL="0", DEBUG="0")
sys.path.insert(0, sys.argv[1])

from tinygrad import Tensor, TinyJit, nn  # noqa: E402
from tinygrad.helpers import Context  # noqa: E402


class Net:
    def __init__(self):
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 5), nn.Conv2d(32, 32, 5)
        self.conv3, self.conv4 = nn.Conv2d(32, 64, 3), nn.Conv2d(64, 64, 3)
        self.bn1, self.bn2 = nn.BatchNorm(32), nn.BatchNorm(64)
        self.fc = nn.Linear(576, 10)

    def __call__(self, images):
        x = self.conv2(self.conv1(images).relu()).relu()
        x = self.bn1(x).max_pool2d()
        x = self.conv4(self.conv3(x).relu()).relu()
        x = self.bn2(x).max_pool2d()
        return self.fc(x.flatten(1))


net = Net()
adam = nn.optim.Adam(nn.state.get_parameters(net))
state = nn.state.get_parameters(net) + nn.state.get_parameters(adam)
images = Tensor.empty(512, 1, 28, 28)
labels = Tensor.empty(512, dtype="int")
Tensor.realize(*state, images, labels)


def step():
    adam.zero_grad()
    loss = net(images).sparse_categorical_crossentropy(labels).backward()
    return loss.realize(*adam.schedule_step())


def milliseconds(run):
    start = time.perf_counter()
    run()
    return (time.perf_counter() - start) * 1e3


with Context(TRAINING=1):
    print("mnist-first", milliseconds(step))
    print("mnist-second", statistics.median(milliseconds(step) for _ in range(5)))
    replayed = TinyJit(step)
    for _ in range(3):
        replayed()
    print("mnist-replay", statistics.median(milliseconds(replayed) for _ in range(9)))

// mote: lazy tensors, gradients, layers, optimizers, captured functions, files of tensors.
// What not every program needs has headers of its own: mote/data.h, mote/models.h.
// Including this costs at most half as much again as <string> and <vector> do
// (test/package_test.cpp), so nothing here includes more of std than it must.
#pragma once
#include <mote/autocast.h>
#include <mote/compiler.h>
#include <mote/dtype.h>
#include <mote/error.h>
#include <mote/file.h>
#include <mote/io.h>
#include <mote/jit.h>
#include <mote/nn.h>
#include <mote/no_grad.h>
#include <mote/optim.h>
#include <mote/tensor.h>

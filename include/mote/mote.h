// mote: lazy tensors, gradients and kernels.
#pragma once
#include <mote/dtype.h>
#include <mote/error.h>
#include <mote/file.h>
#include <mote/tensor.h>

// All of a training run in one safetensors file. A run that is resumed from it ends bit for bit
// where it would have ended without the stop.
#pragma once
#include <mote/data.h>
#include <mote/io.h>

namespace mote {

struct Checkpoint {
  std::string task;  // "mnist"
  Metadata settings;
  int64_t step = 0;
  data::Order::State order;
  // "model.conv1.weight", "optimizer.lr", "random.seed", "losses" and so on.
  std::vector<NamedTensor> tensors;
};

// Atomic: `path` holds the old checkpoint or the new one.
void save_checkpoint(const std::string& path, const Checkpoint&);
Checkpoint load_checkpoint(const std::string& path);
// The tensors whose names begin with "prefix.", without it.
std::vector<NamedTensor> part_of(const std::vector<NamedTensor>&, const std::string& prefix);

}  // namespace mote

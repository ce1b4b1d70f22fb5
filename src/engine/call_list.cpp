#include "engine/call_list.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "base/flags.h"
#include "base/number.h"
#include "engine/profile.h"
#include "ir/device_list.h"
#include "ir/eval.h"
#include "ir/provenance.h"

namespace mote {

namespace {

void report(UOp call, const Kernel& k, double seconds) {
  const std::vector<uint32_t> provenance = provenance_of(call);
  std::fprintf(stderr, "*** %-5s %-36s %9s ms %8s GFLOPS %7s GB/s  %s\n",
               device_name(call->device).c_str(), k.name.c_str(),
               fixed_text(seconds * 1e3, 3).c_str(),
               fixed_text(k.estimate.ops / seconds / 1e9, 1).c_str(),
               fixed_text(k.estimate.bytes / seconds / 1e9, 1).c_str(),
               provenance.empty() ? "" : place(provenance[0]).c_str());
}

// Of an index expression over loops.
int64_t value_of(UOp n, std::span<const std::pair<UOp, int64_t>> loops) {
  if (n->is(Op::Const)) return n->arg.i;
  for (const auto& [loop, position] : loops)
    if (loop == n) return position;
  std::vector<Scalar> src;
  for (UOp s : n->src()) src.push_back(scalar(s->dtype, value_of(s, loops)));
  return eval(n->op, n->dtype, src).i;
}

// In bytes.
int64_t offset_of(UOp place, std::span<const std::pair<UOp, int64_t>> loops) {
  return place->is(Op::Index) ? value_of(place->src(1), loops) * size_of(place->dtype) : 0;
}

}  // namespace

CallList::CallList(std::shared_ptr<const CompiledPlan> plan, std::span<DeviceBuffer* const> buffers,
                   const VarValues& values)
    : plan_(std::move(plan)), places_(buffers.size()) {
  for (const auto& [name, value] : values) variables_.push_back({name, value, {}});
  take_memory(buffers);
  latest_use_.resize(memories_.size());
  Positions loops;
  add_statements(0, loops);
}

// Arrays without elements are in no plan, but they have their place.
void CallList::take_memory(std::span<DeviceBuffer* const> buffers) {
  memories_.resize(buffers.size());
  auto take = [&](int slot) {
    DeviceBuffer& given = *buffers[static_cast<size_t>(slot)];
    given.ensure_memory("tensor");
    memories_[static_cast<size_t>(slot)] = given.memory;
  };
  for (size_t i = 0; i < buffers.size(); ++i)
    if (!buffers[i]->count) take(static_cast<int>(i));
  for (UOp m : memories_of(plan_->placed)) {
    if (!is_temporary(m)) {
      take(slot_of(m));
      continue;
    }
    arenas_[m->device] = static_cast<int>(memories_.size());
    memories_.push_back(MemoryBlock::allocate(device(m->device), bytes_of(m), "temporaries"));
  }
}

int CallList::index_of(UOp place) const {
  const UOp memory = memory_of(place);
  return is_temporary(memory) ? arenas_.at(memory->device) : slot_of(memory);
}

DeviceAddress CallList::start_of(UOp place) const {
  return memories_[static_cast<size_t>(index_of(place))]->address();
}

// From this statement to the end of the loop it stands in: that End.
uint32_t CallList::add_statements(uint32_t i, Positions& loops) {
  const UOp plan = plan_->placed;
  for (; i < plan->nsrc && !plan->src(i)->is(Op::End); ++i) {
    const UOp s = plan->src(i);
    if (!s->is(Op::Range)) {
      add_step(s, loops);
      continue;
    }
    uint32_t end = i;
    loops.emplace_back(s, 0);
    for (int64_t n = s->src(0)->arg.i; loops.back().second < n; ++loops.back().second)
      end = add_statements(i + 1, loops);
    loops.pop_back();
    i = end;
  }
  return i;
}

void CallList::add_use(Part& part, int memory, bool writes) {
  LatestUse& latest = latest_use_[static_cast<size_t>(memory)];
  if (latest.parts != parts_.size()) {
    latest = {parts_.size(), part.uses.size()};
    part.uses.push_back({memory, false});
  }
  part.uses[latest.use].writes |= writes;
}

void CallList::add_step(UOp step, const Positions& loops) {
  const bool is_call = step->is(Op::Call);
  Device* device = &mote::device(step->device);
  const bool joins =
      is_call && !parts_.empty() && parts_.back().launches && parts_.back().device == device;
  if (!joins) parts_.push_back({device, nullptr, {}, {}, {}, {}});
  Part& part = parts_.back();
  part.steps.push_back(step);
  const std::span<Node* const> places = places_of(step);
  for (size_t i = 0; i < places.size(); ++i)
    add_use(part, index_of(places[i]), i < written_by(step));
  if (!is_call) {
    part.offsets = {offset_of(places[0], loops), offset_of(places[1], loops)};
    return;
  }
  if (!joins) part.launches = std::make_shared<std::vector<Launch>>();
  add_launch(step, loops);
}

void CallList::add_launch(UOp call, const Positions& loops) {
  const std::shared_ptr<const Kernel>& kernel = plan_->kernel(call);
  const Kernel& k = *kernel;
  Part& part = parts_.back();
  const int at = static_cast<int>(parts_.size()) - 1,
            number = static_cast<int>(part.launches->size());
  Launch& l = part.launches->emplace_back();
  l.code = {kernel, k.code.get()};
  l.name = k.name.c_str();
  l.threaded = k.threaded;
  l.provenance = call->ints().empty() ? 0 : static_cast<uint32_t>(call->ints(0));
  for (UOp place : places_of(call)) {
    const int64_t offset = offset_of(place, loops);
    if (const UOp memory = memory_of(place); !is_temporary(memory))
      places_[static_cast<size_t>(slot_of(memory))].push_back(
          {at, number, static_cast<int>(l.buffers.size()), offset});
    l.buffers.push_back(start_of(place) + offset);
  }
  for (const std::string& name : k.vars) {
    auto it = std::ranges::find(variables_, name, &Variable::name);
    check(it != variables_.end(), "[realize] the variable ", name, " has no value; bind it first");
    it->places.push_back({at, number, static_cast<int>(l.vars.size()), 0});
    l.vars.push_back(it->value);
  }
  l.extent = value_of(k.extent, k.vars, l.vars);
  ++kernels_;
}

std::vector<Launch>& CallList::changeable(int part) {
  Part& p = parts_[static_cast<size_t>(part)];
  if (!p.last.done()) {
    p.launches = std::make_shared<std::vector<Launch>>(*p.launches);
    p.last = {};
  }
  return *p.launches;
}

void CallList::set_buffer(int param, DeviceBuffer& buffer) {
  const auto slot = static_cast<size_t>(param);
  buffer.ensure_memory("tensor");
  if (memories_[slot] == buffer.memory) return;
  memories_[slot] = buffer.memory;
  for (const Place& p : places_[slot])
    changeable(p.part)[static_cast<size_t>(p.launch)].buffers[static_cast<size_t>(p.slot)] =
        buffer.memory->address() + p.offset;
}

void CallList::set_value(std::string_view name, int64_t value) {
  auto it = std::ranges::find(variables_, name, &Variable::name);
  if (it == variables_.end() || it->value == value) return;
  it->value = value;
  for (const Place& p : it->places) {
    Launch& l = changeable(p.part)[static_cast<size_t>(p.launch)];
    l.vars[static_cast<size_t>(p.slot)] = value;
    const UOp step = parts_[static_cast<size_t>(p.part)].steps[static_cast<size_t>(p.launch)];
    const Kernel& k = *plan_->kernel(step);
    l.extent = value_of(k.extent, k.vars, l.vars);
  }
}

// Before anything runs: an error leaves every tensor as it was.
void CallList::check_sources() const {
  for (const Part& part : parts_) {
    if (part.launches) continue;
    const UOp from = part.steps[0]->src(1);
    device(from->device).check_readable(start_of(from) + part.offsets[1],
                                        part.steps[0]->src(2)->arg.i);
  }
}

void CallList::run() {
  check_sources();
  for (Part& part : parts_) run_part(part);
  counters().kernels_run += kernels_;
}

void CallList::run_part(Part& part) {
  after_.clear();
  for (const Use& use : part.uses)
    memories_[static_cast<size_t>(use.memory)]->append_tokens(after_, use.writes);
  if (!part.launches)
    part.last = copy(part, after_);
  else if (flag(Flag::DEBUG) >= 2 || flag(Flag::PROFILE))
    part.last = run_timed(part);
  else
    part.last = part.device->submit(part.launches, after_);
  for (const Use& use : part.uses)
    memories_[static_cast<size_t>(use.memory)]->add_token(part.last, use.writes);
  part.device->limit_queue(part.last);
}

Token CallList::run_timed(Part& part) {
  for (size_t i = 0; i < part.steps.size(); ++i) {
    auto one = std::make_shared<const std::vector<Launch>>(1, (*part.launches)[i]);
    auto start = std::chrono::steady_clock::now();
    part.device->submit(one, after_).wait();
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const Kernel& kernel = *plan_->kernel(part.steps[i]);
    if (flag(Flag::DEBUG) >= 2) report(part.steps[i], kernel, took.count());
    if (!flag(Flag::PROFILE)) continue;
    const std::vector<uint32_t> from = provenance_of(part.steps[i]);
    note_kernel_run(kernel, from.empty() ? 0 : from[0], took.count());
  }
  return {};
}

Token CallList::copy(const Part& part, std::span<const Token> after) {
  const UOp step = part.steps[0];
  Device &target = *part.device, &source = device(step->src(1)->device);
  if (!source.holds_data() || !target.holds_data()) return {};
  const DeviceAddress there = start_of(step->src(0)) + part.offsets[0],
                      here = start_of(step->src(1)) + part.offsets[1];
  const int64_t bytes = step->src(2)->arg.i;
  if (source.on_host()) return target.copy_in(there, host_address(here), bytes, after);
  if (target.on_host()) return source.copy_out(host_address(there), here, bytes, after);
  if (auto direct = target.copy_from(there, source, here, bytes, after)) return *direct;
  auto host = std::make_shared<std::vector<char>>(static_cast<size_t>(bytes));
  const Token out = source.copy_out(host->data(), here, bytes, after);
  const Token in = target.copy_in(there, host->data(), bytes, {&out, 1});
  target.limit_queue(in, host);
  return in;
}

}  // namespace mote

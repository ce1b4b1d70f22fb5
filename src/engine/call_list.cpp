#include "engine/call_list.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/error.h"
#include "base/flags.h"
#include "base/number.h"
#include "ir/device_list.h"
#include "ir/provenance.h"

namespace mote {

namespace {

void report(const CompiledStep& step, double seconds) {
  const Kernel& k = *step.kernel;
  std::fprintf(stderr, "*** %-5s %-36s %9s ms %8s GFLOPS %7s GB/s  %s\n",
               device_name(step.device).c_str(), k.name.c_str(),
               fixed_text(seconds * 1e3, 3).c_str(),
               fixed_text(k.estimate.ops / seconds / 1e9, 1).c_str(),
               fixed_text(k.estimate.bytes / seconds / 1e9, 1).c_str(),
               step.provenance.empty() ? "" : place(step.provenance[0]).c_str());
}

}  // namespace

CallList::CallList(std::shared_ptr<const CompiledPlan> plan, Device& device,
                   std::span<DeviceBuffer* const> buffers,
                   std::span<const std::pair<std::string, int64_t>> values)
    : plan_(std::move(plan)), device_(device), places_(buffers.size()) {
  for (const auto& [name, value] : values) variables_.push_back({name, value, {}});
  take_memory(buffers);
  latest_use_.resize(memories_.size());
  for (const CompiledStep& step : plan_->steps) add_step(step);
}

void CallList::take_memory(std::span<DeviceBuffer* const> buffers) {
  std::map<uint8_t, int> arenas;
  memories_.resize(buffers.size());
  for (auto [id, bytes] : plan_->arenas) {
    if (!bytes) continue;
    arenas[id] = static_cast<int>(memories_.size());
    memories_.push_back(MemoryBlock::allocate(on(id), bytes, "temporaries"));
  }
  for (const PlannedBuffer& b : plan_->buffers) {
    memory_of_.push_back(b.param < 0 ? arenas[b.device] : b.param);
    if (b.param < 0) continue;
    DeviceBuffer& given = *buffers[static_cast<size_t>(b.param)];
    given.ensure_memory("tensor");
    memories_[static_cast<size_t>(b.param)] = given.memory;
  }
}

DeviceAddress CallList::address(int buffer) const {
  const PlannedBuffer& b = plan_->buffers[static_cast<size_t>(buffer)];
  const DeviceAddress start = memories_[static_cast<size_t>(memory_index(buffer))]->address();
  return b.param < 0 ? start + b.offset : start;
}

void CallList::add_use(Part& part, int memory, bool writes) {
  LatestUse& latest = latest_use_[static_cast<size_t>(memory)];
  if (latest.parts != parts_.size()) {
    latest = {parts_.size(), part.uses.size()};
    part.uses.push_back({memory, false});
  }
  part.uses[latest.use].writes |= writes;
}

void CallList::add_step(const CompiledStep& step) {
  Device* device = &on(step.device);
  const bool joins =
      step.kernel && !parts_.empty() && parts_.back().launches && parts_.back().device == device;
  if (!joins) parts_.push_back({device, nullptr, {}, {}, {}});
  Part& part = parts_.back();
  part.steps.push_back(&step);
  for (size_t i = 0; i < step.buffers.size(); ++i)
    add_use(part, memory_index(step.buffers[i]), step.writes(i));
  if (!step.kernel) return;
  if (!joins) part.launches = std::make_shared<std::vector<Launch>>();
  add_launch(step);
}

void CallList::add_launch(const CompiledStep& step) {
  const Kernel& k = *step.kernel;
  Part& part = parts_.back();
  const int at = static_cast<int>(parts_.size()) - 1,
            number = static_cast<int>(part.launches->size());
  Launch& l = part.launches->emplace_back();
  l.code = {step.kernel, k.code.get()};
  l.name = k.name.c_str();
  l.extent = k.extent;
  l.threaded = k.threaded;
  l.provenance = step.provenance.empty() ? 0 : step.provenance[0];
  for (int id : step.buffers) {
    const int param = plan_->buffers[static_cast<size_t>(id)].param;
    if (param >= 0)
      places_[static_cast<size_t>(param)].push_back(
          {at, number, static_cast<int>(l.buffers.size())});
    l.buffers.push_back(address(id));
  }
  for (const std::string& name : k.vars) {
    auto it = std::ranges::find(variables_, name, &Variable::name);
    check(it != variables_.end(), "[realize] the variable ", name, " has no value; bind it first");
    it->places.push_back({at, number, static_cast<int>(l.vars.size())});
    l.vars.push_back(it->value);
  }
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
        buffer.memory->address();
}

void CallList::set_value(std::string_view name, int64_t value) {
  auto it = std::ranges::find(variables_, name, &Variable::name);
  if (it == variables_.end() || it->value == value) return;
  it->value = value;
  for (const Place& p : it->places)
    changeable(p.part)[static_cast<size_t>(p.launch)].vars[static_cast<size_t>(p.slot)] = value;
}

// Before anything runs: an error leaves every tensor as it was.
void CallList::check_sources() const {
  for (const Part& part : parts_) {
    if (part.launches) continue;
    const int from = part.steps[0]->buffers[1];
    const PlannedBuffer& b = plan_->buffers[static_cast<size_t>(from)];
    on(b.device).check_readable(address(from), b.bytes());
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
    part.last = copy(*part.steps[0], after_);
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
    report(*part.steps[i], took.count());
  }
  return {};
}

Token CallList::copy(const CompiledStep& step, std::span<const Token> after) {
  const PlannedBuffer& to = plan_->buffers[static_cast<size_t>(step.buffers[0])];
  const PlannedBuffer& from = plan_->buffers[static_cast<size_t>(step.buffers[1])];
  Device &target = on(to.device), &source = on(from.device);
  if (!source.holds_data() || !target.holds_data()) return {};
  const DeviceAddress there = address(step.buffers[0]), here = address(step.buffers[1]);
  if (source.on_host()) return target.copy_in(there, host_address(here), to.bytes(), after);
  if (target.on_host()) return source.copy_out(host_address(there), here, to.bytes(), after);
  auto host = std::make_shared<std::vector<char>>(static_cast<size_t>(from.bytes()));
  const Token out = source.copy_out(host->data(), here, from.bytes(), after);
  const Token in = target.copy_in(there, host->data(), to.bytes(), {&out, 1});
  target.limit_queue(in, host);
  return in;
}

}  // namespace mote

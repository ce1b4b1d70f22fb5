#include "engine/plan_disk.h"

#include <set>
#include <unordered_map>

#include "base/build_id.h"
#include "base/byte_lists.h"
#include "base/flags.h"
#include "base/sha256.h"
#include "engine/searched.h"
#include "ir/device_list.h"
#include "runtime/cpu_info.h"
#include "runtime/disk_cache.h"

namespace mote {

namespace {

constexpr size_t kLargest = 64 << 20;  // of a plan that is kept

// A graph of statements names places of the user's program by numbers of this process: in the nodes'
// provenance and in Calls. f gives others for them.
template <class F>
void renumber_places(Flat& flat, F f) {
  std::vector<uint64_t>& w = flat.words;
  for (size_t at = 0; at < w.size(); at += 2 + ((w[at] >> 16) + 1) / 2) {
    if (static_cast<Op>(w[at] & 0xff) != Op::Call) continue;
    const ArgObject* before = Arg::of(static_cast<int64_t>(w[at + 1])).object;
    if (!before) continue;
    std::vector<int64_t> places = before->ints;
    for (int64_t& p : places) p = f(static_cast<uint32_t>(p));
    w[at + 1] = static_cast<uint64_t>(Arg::of(intern_arg(places, before->str)).i);
  }
  for (uint32_t& p : flat.provenance) p = f(p);
}

// All memory of a graph is a Param.
std::set<uint8_t> devices_of(const Flat& flat) {
  std::set<uint8_t> out;
  const std::vector<uint64_t>& w = flat.words;
  for (size_t at = 0; at < w.size(); at += 2 + ((w[at] >> 16) + 1) / 2)
    if (static_cast<Op>(w[at] & 0xff) == Op::Param)
      out.insert(static_cast<uint8_t>(Arg::of(static_cast<int64_t>(w[at + 1])).object->ints.at(3)));
  return out;
}

// The first Call of each kernel on each device.
std::vector<UOp> distinct_calls(const CompiledPlan& plan) {
  std::vector<UOp> out;
  std::map<std::pair<const Node*, uint8_t>, bool> seen;
  for (UOp s : plan.steps->src())
    if (s->is(Op::Call) && seen.try_emplace(CompiledPlan::key(s)).second) out.push_back(s);
  return out;
}

bool write_kernel(const Kernel& kernel, const Device& runs, ByteWriter& out) {
  const std::vector<uint8_t> code = runs.saved(*kernel.code);
  out.list(code), out.list(kernel.name), out.list(kernel.actions);
  out.number(uint64_t{kernel.vars.size()});
  for (const std::string& v : kernel.vars) out.list(v);
  out.list(portable(kernel.extent));
  out.number(kernel.threaded), out.number(kernel.estimate), out.number(kernel.compile_ms);
  return !code.empty();
}

std::shared_ptr<const Kernel> read_kernel(ByteReader& in, Device& runs) {
  auto out = std::make_shared<Kernel>();
  std::vector<uint8_t> code;
  std::vector<uint8_t> extent;
  uint64_t vars;
  if (!in.list(code) || !in.list(out->name) || !in.list(out->actions) || !in.number(vars))
    return {};
  for (; vars > 0; --vars)
    if (!in.list(out->vars.emplace_back())) return {};
  if (!in.list(extent) || !read_portable(extent, out->extent)) return {};
  if (!in.number(out->threaded) || !in.number(out->estimate) || !in.number(out->compile_ms))
    return {};
  out->code = runs.restored(code);
  return out->code ? out : nullptr;
}

}  // namespace

std::string plan_key(const Flat& flat) {
  if (!flag(Flag::CACHE) || flag(Flag::SPEC) || flag(Flag::BEAM) || flag(Flag::DEBUG) >= 3 ||
      !compile_cache().usable() || anything_searched())
    return {};
  const std::vector<uint8_t> graph = portable(flat);
  // Code for the host uses all that this processor has, which a folder's next user may lack.
  std::string key =
      text("plan\n", build_id(), "\n", code_flags_hash(), "\n", cpu_info().features, "\n");
  for (const uint8_t id : devices_of(flat))
    key += text(static_cast<int>(id), " ", device_name(id), " ", device_key(device(id)), "\n");
  const Digest digest = sha256(graph.data(), graph.size());
  return key + std::string(reinterpret_cast<const char*>(&digest), sizeof digest);
}

std::shared_ptr<const CompiledPlan> stored_plan(const std::string& key, const Flat& flat) {
  const auto bytes = compile_cache().get(key);
  if (!bytes) return {};
  ByteReader in{*bytes};
  std::vector<uint8_t> graph;
  std::vector<uint32_t> provenance;
  Flat steps;
  if (!in.list(graph) || !in.list(provenance) || !read_portable(graph, steps)) return {};
  steps.provenance = std::move(provenance);
  renumber_places(steps, [&](uint32_t place) -> uint32_t {  // from 1 on, of the graph's nodes
    return place && place <= flat.provenance.size() ? flat.provenance[place - 1] : 0;
  });
  Arena arena;
  ArenaScope scope(arena);
  auto out = std::make_shared<CompiledPlan>(unflatten_graph(steps));
  for (UOp call : distinct_calls(*out)) {
    Device& runs = device(call->device);
    std::shared_ptr<const Kernel> kernel = read_kernel(in, runs);
    if (!kernel) return {};
    out->kernels[CompiledPlan::key(call)] = add_kernel(call->src(0), runs, kernel);
  }
  return out;
}

void store_plan(const std::string& key, const Flat& flat, const CompiledPlan& plan) {
  std::unordered_map<uint32_t, uint32_t> places;  // the first node, from 1 on, that is from there
  for (size_t i = 0; i < flat.provenance.size(); ++i)
    places.try_emplace(flat.provenance[i], static_cast<uint32_t>(i + 1));
  Flat steps = flatten_graph(plan.steps);
  renumber_places(steps, [&](uint32_t place) -> uint32_t {
    const auto it = places.find(place);
    return place && it != places.end() ? it->second : 0;
  });
  ByteWriter out;
  out.list(portable(steps)), out.list(steps.provenance);
  for (UOp call : distinct_calls(plan))
    if (!write_kernel(*plan.kernel(call), device(call->device), out)) return;
  if (out.bytes.size() <= kLargest) compile_cache().put(key, out.bytes);
}

}  // namespace mote

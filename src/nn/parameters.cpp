#include "nn/parameters.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "base/nearest_name.h"
#include "base/utf8.h"
#include "engine/realize.h"
#include "nn/module_call.h"
#include "runtime/device.h"
#include "tensor/handles.h"

namespace mote {

bool is_parameter(const Tensor& t) { return t.defined() && t.impl()->marked; }

std::vector<NamedTensor> keep_parameters(std::vector<NamedTensor> all) {
  std::vector<NamedTensor> out;
  std::map<TensorImpl*, bool> seen;
  for (NamedTensor& n : all)
    if (is_parameter(n.tensor) && seen.emplace(n.tensor.impl(), true).second)
      out.push_back(std::move(n));
  return out;
}

namespace {

std::string listed(const std::vector<std::string>& names) {
  constexpr size_t kMost = 20;
  std::string out;
  for (size_t i = 0; i < std::min(names.size(), kMost); ++i)
    out += (i ? ", " : "") + printable(names[i]);
  if (names.size() > kMost) out += text(" and ", names.size() - kMost, " more");
  return out;
}

// How the names given differ from those looked for, where it is by what stands in front of them.
std::string prefix_hint(const LoadReport& r) {
  struct Difference {
    int pairs = 0;
    std::string missing, given;
  };
  std::map<std::pair<bool, std::string>, Difference> found;
  for (const std::string& want : r.missing)
    for (const std::string& given : r.unexpected) {
      const bool longer = given.size() > want.size();
      const std::string &whole = longer ? given : want, &end = longer ? want : given;
      if (!whole.ends_with("." + end)) continue;
      Difference& d = found[{longer, whole.substr(0, whole.size() - end.size())}];
      if (++d.pairs == 1) d.missing = want, d.given = given;
    }
  auto most = std::ranges::max_element(found, {}, [](auto& f) { return f.second.pairs; });
  if (most == found.end()) return "";
  const auto& [longer, prefix] = most->first;
  return text("\n  ", printable(most->second.missing), " is missing; did you mean ",
              printable(most->second.given), "? ", most->second.pairs,
              " of the names fit once the prefix ", printable(prefix), " is ",
              longer ? "taken away: without_prefix(tensors, \"" : "added: with_prefix(tensors, \"",
              printable(prefix), "\")");
}

std::string spelling_hint(const LoadReport& r) {
  const std::vector<std::string_view> known(r.unexpected.begin(), r.unexpected.end());
  for (const std::string& name : r.missing)
    if (std::string_view near = nearest_name(name, known); !near.empty())
      return text("\n  ", printable(name), " is missing; did you mean ", printable(near), "?");
  return "";
}

void fail_unfit(const LoadReport& r) {
  std::string what;
  auto add = [&](const std::vector<std::string>& names, const char* one, const char* several) {
    if (!names.empty())
      what += text(what.empty() ? "" : "\n  ", names.size(), names.size() == 1 ? one : several,
                   listed(names));
  };
  add(r.missing, " tensor is missing: ", " tensors are missing: ");
  add(r.unexpected, " tensor is not expected: ", " tensors are not expected: ");
  add(r.misshapen, " tensor has another shape: ", " tensors have another shape: ");
  const std::string hint = prefix_hint(r);
  fail_call(what, hint.empty() ? spelling_hint(r) : hint);
}

// The tensor given for each of `into`, or null.
std::vector<const Tensor*> matched(const std::vector<NamedTensor>& into,
                                   const std::vector<NamedTensor>& from, LoadReport& report) {
  std::map<std::string_view, const Tensor*> given;
  for (const NamedTensor& n : from) given[n.name] = &n.tensor;
  std::map<std::string_view, bool> known;
  std::map<const TensorImpl*, bool> reached;  // by any of its names: files store tied weights once
  for (const NamedTensor& n : into) reached[n.tensor.impl()] |= given.contains(n.name);
  std::vector<const Tensor*> out;
  for (const NamedTensor& n : into) {
    known[n.name] = true;
    auto it = given.find(n.name);
    out.push_back(it == given.end() ? nullptr : it->second);
    if (it == given.end()) {
      if (!reached[n.tensor.impl()]) report.missing.push_back(n.name);
    } else if (dims_of(*it->second) != dims_of(n.tensor)) {
      report.misshapen.push_back(text(n.name, " ", n.tensor, ", given ", *it->second));
      out.back() = nullptr;
    }
  }
  for (const NamedTensor& n : from)
    if (!known.contains(n.name)) report.unexpected.push_back(n.name);
  return out;
}

bool fits(const LoadReport& r) {
  return r.missing.empty() && r.unexpected.empty() && r.misshapen.empty();
}

}  // namespace

void check_fit(const std::vector<NamedTensor>& into, const std::vector<NamedTensor>& from) {
  LoadReport report;
  matched(into, from, report);
  if (!fits(report)) fail_unfit(report);
}

LoadReport load_tensors(const std::vector<NamedTensor>& into, const std::vector<NamedTensor>& from,
                        bool strict, Loc where) {
  OuterCall call("load_state_dict", where);
  LoadReport report;
  const std::vector<const Tensor*> given = matched(into, from, report);
  if (strict && !fits(report)) fail_unfit(report);
  std::vector<Tensor> loaded;
  for (size_t i = 0; i < into.size(); ++i) {
    if (!given[i]) continue;
    // Moved first: a file's tensor can do nothing else.
    Tensor(into[i].tensor).assign(given[i]->to(into[i].tensor.device()).detach());
    loaded.push_back(into[i].tensor);
  }
  realize(loaded);
  return report;
}

std::vector<NamedTensor> without_prefix(const std::vector<NamedTensor>& all,
                                        const std::string& prefix) {
  std::vector<NamedTensor> out;
  for (const NamedTensor& t : all)
    if (t.name.starts_with(prefix)) out.push_back({t.name.substr(prefix.size()), t.tensor});
  return out;
}

std::vector<NamedTensor> with_prefix(std::vector<NamedTensor> all, const std::string& prefix) {
  for (NamedTensor& t : all) t.name.insert(0, prefix);
  return all;
}

void move_tensors(std::vector<Tensor> all, DType dtype, const std::string& device, Loc where) {
  OuterCall call("to", where);
  expect(dtype == DType::none || is_float(dtype), "modules are cast to floats, got ", dtype);
  for (const Tensor& t : all)
    expect(!t.is_view(),
           "a tensor of the module is a view, for example of a flat optimizer's parameters; "
           "call to() before making the optimizer");
  realize(all);
  for (const Tensor& t : all) {
    TensorImpl& impl = *t.impl();
    Tensor next = t.detach();
    if (dtype != DType::none && is_float(t.dtype())) next = next.to(dtype);
    if (!device.empty()) next = next.to(device);
    if (next.dtype() == t.dtype() && next.device() == t.device()) continue;
    const bool marked = impl.marked;
    const Ref value = node_of(next);
    mark_leaf(t, false);
    set_own(impl, false);
    impl.dtype = value->dtype, impl.device = next.impl()->device, impl.value = value;
    give_storage(t);
    if (marked) mark_leaf(t, true);
  }
  realize(all);
}

namespace {

// The plain name in "const char* mote::type_name() [with T = Net]".
std::string plain_type(std::string_view pretty) {
  const size_t begin = pretty.find("T = "), end = pretty.find_last_of("]");
  if (begin == pretty.npos || end == pretty.npos) return "the struct";
  std::string_view name = pretty.substr(begin + 4, end - begin - 4);
  return std::string(name.substr(0, name.find(';')));
}

// Finds handles on parameters among words of memory.
class LostParameters {
 public:
  LostParameters(const FieldPlaces& places) : leaves_(live_leaves()) {
    for (const Tensor* t : places.tensors) {
      places_.insert(t);
      leaves_.erase(t->impl());
      if (t->is_view()) leaves_.erase(t->impl()->base.impl());  // of a flat optimizer
    }
  }
  // The shape of a parameter that is held in [begin, begin + size) and was not visited; "" if none.
  std::string in(const void* begin, size_t size) const {
    const auto* words = static_cast<const uintptr_t*>(begin);
    const size_t count = size / sizeof(uintptr_t);
    for (size_t i = 0; i < count; ++i) {
      if (places_.contains(words + i)) continue;
      if (std::string found = shape_at(words[i]); !found.empty()) return found;
      if (i + 3 <= count)
        if (std::string found = in_vector(words + i); !found.empty()) return found;
    }
    return "";
  }

 private:
  static bool copy_memory(uintptr_t at, void* to, size_t bytes) {
    iovec into{to, bytes}, from{reinterpret_cast<void*>(at), bytes};
    return process_vm_readv(getpid(), &into, 1, &from, 1, 0) == static_cast<ssize_t>(bytes);
  }
  std::string shape_at(uintptr_t word) const {
    auto it = leaves_.find(reinterpret_cast<const TensorImpl*>(word));
    if (it == leaves_.end()) return "";
    return text("a parameter of shape ", *it->second);
  }
  // Three words that are a std::vector's, if memory of that size was taken there: glibc keeps the
  // size in front of it. The system copies, and refuses where there is no such memory.
  std::string in_vector(const uintptr_t* words) const {
    const uintptr_t begin = words[0], end = words[1], room = words[2];
    constexpr uintptr_t kMost = 1 << 20;
    if (begin < 64 || begin % 16 || end <= begin || room < end || room - begin > kMost) return "";
    uintptr_t header = 0;
    if (!copy_memory(begin - sizeof header, &header, sizeof header)) return "";
    const uintptr_t usable = (header & ~uintptr_t{7}) - sizeof header;
    if (usable < room - begin || usable > room - begin + 24) return "";
    std::vector<uintptr_t> copy((end - begin) / sizeof(uintptr_t));
    if (!copy_memory(begin, copy.data(), copy.size() * sizeof(uintptr_t))) return "";
    for (size_t i = 0; i < copy.size(); ++i)
      if (!places_.contains(reinterpret_cast<const void*>(begin + i * sizeof(uintptr_t))))
        if (std::string found = shape_at(copy[i]); !found.empty()) return "a list with " + found;
    return "";
  }

  std::map<const TensorImpl*, const Shape*> leaves_;
  std::set<const void*> places_;
};

}  // namespace

bool fields_were_checked(const char* type, bool done) {
  static auto* mutex = new std::mutex;
  static auto* types = new std::set<std::string>;
  std::lock_guard lock(*mutex);
  if (done) types->insert(type);
  return types->contains(type);
}

void check_fields_named(const FieldPlaces& places, Loc where) {
  OuterCall call("parameters", where);
  const LostParameters lost(places);
  for (auto part = places.structs.rbegin(); part != places.structs.rend(); ++part) {
    const std::string found = lost.in(part->begin, part->size);
    expect(found.empty(), plain_type(part->type), part->path.empty() ? "" : " (" + part->path + ")",
           " holds ", found, " that its MOTE_FIELDS(...) line does not name");
  }
}

namespace nn {

namespace {

bool holds_data(const Options& o) { return mote::device(device_from(o.device)).holds_data(); }

}  // namespace

void expect_sizes(std::span<const int64_t> sizes) {
  for (int64_t n : sizes) expect(n >= 0, "sizes must not be negative, got ", n);
}
void expect_sizes(std::initializer_list<int64_t> sizes) {
  expect_sizes(std::span(sizes.begin(), sizes.size()));
}

void expect_at_least_0(double value, const char* what) {
  expect(value >= 0, "the ", what, " must be >= 0, got ", value);
}
void expect_below_1(double value, const char* what) {
  expect(value >= 0 && value < 1, "the ", what, " must be >= 0 and < 1, got ", value);
}

Tensor unset(const Sizes& shape, const Options& o) {
  std::vector<Dim> dims = to_dims(shape);
  int64_t count = 1;
  for (const Dim& d : dims) count *= numeric(d);
  DType dtype = o.dtype == DType::none ? DType::f32 : o.dtype;
  return make_stored(prim::buffer(device_from(o.device), dtype, count), dims);
}

Tensor parameter(const Tensor& x) {
  Tensor t = x;
  return t.defined() ? t.requires_grad_() : t;
}

Tensor uniform_parameter(const Sizes& shape, double bound, const Options& o) {
  return parameter(holds_data(o) ? uniform(shape, -bound, bound, o) : unset(shape, o));
}
Tensor normal_parameter(const Sizes& shape, double std, const Options& o) {
  return parameter(holds_data(o) ? normal(shape, 0, std, o) : unset(shape, o));
}
Tensor full_buffer(const Sizes& shape, double value, const Options& o) {
  return holds_data(o) ? full(shape, value, o) : unset(shape, o);
}
Tensor full_parameter(const Sizes& shape, double value, const Options& o) {
  return parameter(full_buffer(shape, value, o));
}

}  // namespace nn
}  // namespace mote

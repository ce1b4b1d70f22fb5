// Layers. A module is a plain struct: public tensors, a MOTE_FIELDS line that names them as PyTorch
// does, and operator(). Parameters are leaves that require gradients, initialised lazily by
// PyTorch's defaults; on a device that holds no data they are not initialised and nothing runs. A
// default-constructed module has no parameters. Copies of a module share its tensors.
// Modules that behave differently in training have a member `training`; train(model) and
// eval(model) set it everywhere. It is a Switch, so a captured function (jit.h) notices when it
// changes. In your own modules a plain bool works too, but then only train() and eval() are
// noticed.
#pragma once
#include <mote/fields.h>

namespace mote {

// The parameters in a value, each once, with their names.
bool is_parameter(const Tensor& t);
std::vector<NamedTensor> keep_parameters(std::vector<NamedTensor> all);

// The addresses of the structs and tensors of a module.
struct FieldPlaces {
  struct Part {
    std::string path;
    const char* type;
    const void* begin;
    size_t size;
  };
  std::vector<Part> structs;
  std::vector<const Tensor*> tensors;
};
// An error if a struct holds a parameter that its MOTE_FIELDS line does not name: it would never
// be trained, saved or moved.
void check_fields_named(const FieldPlaces& places, Loc where);
// Whether a type has been checked; `done` notes that it has been.
bool fields_were_checked(const char* type, bool done = false);
template <class T>
const char* type_name() {
  return __PRETTY_FUNCTION__;
}
template <class Module>
FieldPlaces field_places(Module& m) {
  FieldPlaces places;
  walk_fields(m, "", [&]<class Part>(const std::string& path, const Part& part) {
    if constexpr (std::is_same_v<Part, Tensor>)
      places.tensors.push_back(&part);
    else if constexpr (HasFields<Part>)
      places.structs.push_back({path, type_name<Part>(), &part, sizeof(Part)});
  });
  return places;
}

// The first call for a type also checks that MOTE_FIELDS names all members that hold parameters.
template <class Module>
std::vector<NamedTensor> named_parameters(Module& m, Loc where = MOTE_HERE) {
  std::vector<NamedTensor> out = keep_parameters(named_tensors(m));
  if (!fields_were_checked(type_name<Module>())) {
    check_fields_named(field_places(m), where);
    fields_were_checked(type_name<Module>(), !out.empty());
  }
  return out;
}
template <class Module>
std::vector<Tensor> parameters(Module& m, Loc where = MOTE_HERE) {
  std::vector<Tensor> out;
  for (NamedTensor& n : named_parameters(m, where)) out.push_back(std::move(n.tensor));
  return out;
}

// Parameters and buffers under PyTorch's names. Loading assigns values, so shapes must agree. If
// anything does not fit, one error lists all of it and nothing is loaded; with strict = false, what
// fits is loaded and the rest is reported. Afterwards the values are in memory, so the next step
// runs the kernels of a run that was never interrupted, and gives the same bits.
struct LoadReport {
  std::vector<std::string> missing;     // names in the module for which nothing is given
  std::vector<std::string> unexpected;  // given names that the module does not have
  std::vector<std::string> misshapen;   // given in another shape
};
template <class Module>
std::vector<NamedTensor> state_dict(Module& m) {
  return named_tensors(m);
}
LoadReport load_tensors(const std::vector<NamedTensor>& into, const std::vector<NamedTensor>& from,
                        bool strict, Loc where);
template <class Module>
LoadReport load_state_dict(Module& m, const std::vector<NamedTensor>& from, bool strict = true,
                           Loc where = MOTE_HERE) {
  return load_tensors(named_tensors(m), from, strict, where);
}
// The tensors whose names begin with `prefix`, with it removed; all tensors, with it added.
std::vector<NamedTensor> without_prefix(const std::vector<NamedTensor>& all,
                                        const std::string& prefix);
std::vector<NamedTensor> with_prefix(std::vector<NamedTensor> all, const std::string& prefix);

// Casts the floating-point tensors of a module, or moves all its tensors, in place: every handle on
// them follows. Make optimizers afterwards, because their state is not changed.
void move_tensors(std::vector<Tensor> all, DType dtype, const std::string& device, Loc where);
template <class Module>
Module& to(Module& m, DType dtype, Loc where = MOTE_HERE) {
  move_tensors(tensors(m), dtype, "", where);
  return m;
}
template <class Module>
Module& to(Module& m, const std::string& device, Loc where = MOTE_HERE) {
  move_tensors(tensors(m), DType::none, device, where);
  return m;
}

struct SwitchCell;  // tensor/handles.h

// A bool whose reads are recorded by captured functions. A copy is a switch of its own; a moved
// switch, as in a vector that grows, stays the same one.
class Switch {
 public:
  Switch(bool on = false);
  Switch(const Switch& other) : Switch(other.peek()) {}
  Switch(Switch&& other) noexcept : Switch(other.peek()) { std::swap(cell_, other.cell_); }
  Switch& operator=(const Switch& other) { return *this = other.peek(); }
  Switch& operator=(bool on);
  ~Switch();
  operator bool() const;
  bool peek() const;  // unseen by captured functions

 private:
  SwitchCell* cell_;
};

// train() and eval() are about to set a plain bool.
void note_plain_switch(const bool& which, bool now);

template <class Module>
void train(Module& m, bool training = true) {
  walk_fields(
      m, "", [&](const std::string&, auto& part) requires requires { part.training = training; } {
        if constexpr (std::is_same_v<decltype(part.training), bool>)
          note_plain_switch(part.training, training);
        part.training = training;
      });
}
template <class Module>
void eval(Module& m) {
  train(m, false);
}

namespace nn {

// Marks x as a parameter; an undefined tensor stays undefined.
Tensor parameter(const Tensor& x);

struct Linear {
  Tensor weight, bias;
  MOTE_FIELDS(weight, bias)
  Linear() = default;
  Linear(int64_t in_features, int64_t out_features, bool with_bias = true, const Options& = {},
         Loc = MOTE_HERE);
  Tensor operator()(const Tensor& x, Loc = MOTE_HERE) const;
};

template <int Rank>
struct Conv {
  Tensor weight, bias;
  ConvOptions options;
  const char* padding_mode = "zeros";  // or reflect, replicate, circular
  MOTE_FIELDS(weight, bias)
  Conv() = default;
  Conv(int64_t in_channels, int64_t out_channels, const Ints& kernel, const ConvOptions& = {},
       bool with_bias = true, const Options& = {}, Loc = MOTE_HERE);
  Tensor operator()(const Tensor& x, Loc = MOTE_HERE) const;
};
using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;

template <int Rank>
struct ConvTranspose {
  Tensor weight, bias;
  ConvTransposeOptions options;
  MOTE_FIELDS(weight, bias)
  ConvTranspose() = default;
  ConvTranspose(int64_t in_channels, int64_t out_channels, const Ints& kernel,
                const ConvTransposeOptions& = {}, bool with_bias = true, const Options& = {},
                Loc = MOTE_HERE);
  Tensor operator()(const Tensor& x, Loc = MOTE_HERE) const;
};
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

// For any number of spatial axes. In training a call also writes the running statistics: realize
// them too. Without running statistics the batch's own are always used.
struct BatchNorm {
  Tensor weight, bias, running_mean, running_var, num_batches_tracked;
  double eps = 1e-5, momentum = 0.1;
  Switch training = true;
  MOTE_FIELDS(weight, bias, running_mean, running_var, num_batches_tracked)
  BatchNorm() = default;
  explicit BatchNorm(int64_t channels, const Options& = {}, bool affine = true,
                     bool track_running_stats = true, Loc = MOTE_HERE);
  Tensor operator()(const Tensor& x, Loc = MOTE_HERE) const;
};

struct LayerNorm {
  Tensor weight, bias;
  Ints normalized_shape;
  double eps = 1e-5;
  MOTE_FIELDS(weight, bias)
  LayerNorm() = default;
  explicit LayerNorm(const Ints& shape, double epsilon = 1e-5, bool affine = true,
                     const Options& = {}, bool with_bias = true, Loc = MOTE_HERE);
  Tensor operator()(const Tensor& x, Loc = MOTE_HERE) const;
};

struct RMSNorm {
  Tensor weight;
  Ints normalized_shape;
  double eps = -1;  // the dtype's epsilon
  MOTE_FIELDS(weight)
  RMSNorm() = default;
  explicit RMSNorm(const Ints& shape, double epsilon = -1, const Options& = {}, bool affine = true,
                   Loc = MOTE_HERE);
  Tensor operator()(const Tensor& x, Loc = MOTE_HERE) const;
};

struct GroupNorm {
  Tensor weight, bias;
  int64_t groups = 1;
  double eps = 1e-5;
  MOTE_FIELDS(weight, bias)
  GroupNorm() = default;
  GroupNorm(int64_t num_groups, int64_t channels, double epsilon = 1e-5, bool affine = true,
            const Options& = {}, Loc = MOTE_HERE);
  Tensor operator()(const Tensor& x, Loc = MOTE_HERE) const;
};

struct InstanceNorm {
  Tensor weight, bias;
  double eps = 1e-5;
  MOTE_FIELDS(weight, bias)
  InstanceNorm() = default;
  explicit InstanceNorm(int64_t channels, double epsilon = 1e-5, bool affine = false,
                        const Options& = {}, Loc = MOTE_HERE);
  Tensor operator()(const Tensor& x, Loc = MOTE_HERE) const;
};

struct Embedding {
  Tensor weight;
  int64_t padding_idx = -1;
  MOTE_FIELDS(weight)
  Embedding() = default;
  Embedding(int64_t rows, int64_t features, const Options& = {}, Loc = MOTE_HERE);
  Tensor operator()(const Tensor& indices, Loc = MOTE_HERE) const;
};

struct Dropout {
  double p = 0.5;
  Switch training = true;
  MOTE_FIELDS()
  Tensor operator()(const Tensor& x, Loc = MOTE_HERE) const;
};

// One time step: (x, state) to the next state. An undefined state counts as zeros.
struct LSTMCell {
  struct State {
    Tensor h, c;
    MOTE_FIELDS(h, c)
  };
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;
  MOTE_FIELDS(weight_ih, weight_hh, bias_ih, bias_hh)
  LSTMCell() = default;
  LSTMCell(int64_t input_size, int64_t hidden_size, bool with_bias = true, const Options& = {},
           Loc = MOTE_HERE);
  State operator()(const Tensor& x, const State& before = {}, Loc = MOTE_HERE) const;
};
struct GRUCell {
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;
  MOTE_FIELDS(weight_ih, weight_hh, bias_ih, bias_hh)
  GRUCell() = default;
  GRUCell(int64_t input_size, int64_t hidden_size, bool with_bias = true, const Options& = {},
          Loc = MOTE_HERE);
  Tensor operator()(const Tensor& x, const Tensor& before = {}, Loc = MOTE_HERE) const;
};

// (batch, length, features) in and out, or (length, features). With MultiheadOptions whose
// batch_first is false: (length, batch, features).
struct MultiheadOptions {
  double dropout = 0;
  bool bias = true, add_bias_kv = false, add_zero_attn = false;
  int64_t kdim = 0, vdim = 0;  // features of keys and values; 0: as many as of the query
  bool batch_first = false;
};
// For attend(). As in PyTorch, bool masks are true where attention is not allowed; floats are
// added.
struct MultiheadCall {
  Tensor attn_mask = {};         // (query, key), or (batch * heads, query, key)
  Tensor key_padding_mask = {};  // (batch, key)
  bool is_causal = false;
  bool need_weights = true, average_attn_weights = true;
};
struct MultiheadResult {
  Tensor output, weights;  // weights: undefined if not needed
  MOTE_FIELDS(output, weights)
};
struct MultiheadAttention {
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;  // where kdim or vdim is another
  Tensor in_proj_weight, in_proj_bias, bias_k, bias_v;
  Linear out_proj;
  int64_t heads = 1;
  double dropout = 0;
  bool batch_first = true, add_zero_attn = false;
  Switch training = true;
  MOTE_FIELDS(q_proj_weight, k_proj_weight, v_proj_weight, in_proj_weight, in_proj_bias, bias_k,
              bias_v, out_proj)
  MultiheadAttention() = default;
  MultiheadAttention(int64_t features, int64_t num_heads, const MultiheadOptions&,
                     const Options& = {}, Loc = MOTE_HERE);
  MultiheadAttention(int64_t features, int64_t num_heads, bool with_bias = true,
                     const Options& = {}, Loc = MOTE_HERE);
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    AttentionOptions = {}, Loc = MOTE_HERE) const;
  MultiheadResult attend(const Tensor& query, const Tensor& key, const Tensor& value,
                         const MultiheadCall& = {}, Loc = MOTE_HERE) const;
};

// A tuple. std::tuple would add half as much again to the cost of this header.
template <class...>
struct Row {
  template <class Self, class F>
  static void each(Self&, F&&) {}
};
template <class First, class... Rest>
struct Row<First, Rest...> {
  First first;
  Row<Rest...> rest;
  Row() = default;
  explicit Row(First f, Rest... r) : first(std::move(f)), rest(std::move(r)...) {}
  template <class Self, class F>
  static void each(Self& self, F&& f) {
    f(self.first);
    Row<Rest...>::each(self.rest, f);
  }
};

// Modules in sequence, named "0", "1" and so on; lambdas and functions of a tensor work too.
template <class... Modules>
struct Sequential {
  Row<Modules...> modules;
  explicit Sequential(Modules... m) : modules(std::move(m)...) {}
  Sequential() = default;

  template <class F>
  void each_field(F&& f) {
    each_module(*this, f);
  }
  template <class F>
  void each_field(F&& f) const {
    each_module(*this, f);
  }
  Tensor operator()(const Tensor& x, Loc where = MOTE_HERE) const {
    Tensor y = x;
    Row<Modules...>::each(modules, [&](const auto& m) { y = called(m, y, where); });
    return y;
  }

 private:
  template <class Module>
  static Tensor called(const Module& m, const Tensor& x, const Loc& where) {
    if constexpr (requires { m(x, where); })
      return m(x, where);
    else
      return m(x);
  }
  template <class Self, class F>
  static void each_module(Self& self, F&& f) {
    size_t i = 0;
    Row<Modules...>::each(self.modules, [&](auto& m) {
      std::string name = std::to_string(i++);
      if constexpr (HasFields<std::remove_reference_t<decltype(m)>>) f(std::string_view(name), m);
    });
  }
};

}  // namespace nn
}  // namespace mote

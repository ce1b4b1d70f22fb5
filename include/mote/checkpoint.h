// Checkpoints: everything that a training run changes, in one safetensors file. A resumed run ends
// with the same bits as a run that was never stopped (docs/checkpoint.md).
//
//   int64_t step = 0;
//   auto state = [&]() -> CheckpointParts {
//     return {{"model", net}, {"optimizer", opt}, {"order", order}, {"step", step}};
//   };
//   if (resumes) load_checkpoint("run.safetensors", state());
//   for (; step < steps; ) {
//     ...
//     if (++step % 100 == 0) save_checkpoint("run.safetensors", state());
//   }
//
// A part is a name and a variable. Saving reads the variable, loading writes it. It may be:
//   * anything that holds tensors (fields.h): modules, optimizers, averages, scalers
//   * a number, a bool, a string; pairs of names and strings (Metadata)
//   * a std::vector of float, double or int64_t
//   * anything with state() and restore(): data::Order, data::Loader, optim::ReduceLROnPlateau
// The state of the random numbers is always saved.
#pragma once
#include <mote/io.h>

namespace mote {

// Values as text and back. Text that is not of the value's kind is an error that names the value.
namespace checkpoint_text {
std::string of(int64_t value);
std::string of(double value);
inline std::string of(const std::string& value) { return value; }
void read(const std::string& text, const std::string& name, int64_t& value, int64_t lo, int64_t hi);
void read(const std::string& text, const std::string& name, double& value);
inline void read(const std::string& text, const std::string&, std::string& value) { value = text; }
Tensor list(const float* values, size_t count);
Tensor list(const double* values, size_t count);
Tensor list(const int64_t* values, size_t count);
}  // namespace checkpoint_text

template <class T>
concept KeepsState = requires(T& t, const Metadata& m) {
  t.restore(m);
  Metadata(t.state());
};
template <class T>
concept ListOfNumbers = std::is_same_v<T, std::vector<float>> ||
    std::is_same_v<T, std::vector<double>> || std::is_same_v<T, std::vector<int64_t>>;

class CheckpointPart {
 public:
  template <class T>
  CheckpointPart(std::string part_name, T& value) : name(std::move(part_name)), object(&value) {
    namespace text = checkpoint_text;
    if constexpr (std::is_same_v<T, Metadata>) {
      values = [](const void* v) { return *static_cast<const Metadata*>(v); };
      restore = [](void* v, const Metadata& m, const std::string&) {
        *static_cast<Metadata*>(v) = m;
      };
    } else if constexpr (KeepsState<T>) {
      values = [](const void* v) -> Metadata { return static_cast<const T*>(v)->state(); };
      restore = [](void* v, const Metadata& m, const std::string&) {
        static_cast<T*>(v)->restore(m);
      };
    } else if constexpr (std::is_integral_v<T>) {
      values = [](const void* v) -> Metadata {
        return {
            {"", text::of(static_cast<int64_t>(*static_cast<const T*>(v)))}
        };
      };
      restore = [](void* v, const Metadata& m, const std::string& part) {
        constexpr bool wide = sizeof(T) == 8;
        int64_t n = 0;
        text::read(m[0].second, part, n, wide ? INT64_MIN : static_cast<int64_t>(least<T>()),
                   wide ? INT64_MAX : static_cast<int64_t>(most<T>()));
        *static_cast<T*>(v) = static_cast<T>(n);
      };
    } else if constexpr (std::is_floating_point_v<T> || std::is_same_v<T, std::string>) {
      using Wide = std::conditional_t<std::is_floating_point_v<T>, double, std::string>;
      values = [](const void* v) -> Metadata {
        return {
            {"", text::of(static_cast<Wide>(*static_cast<const T*>(v)))}
        };
      };
      restore = [](void* v, const Metadata& m, const std::string& part) {
        Wide read{};
        text::read(m[0].second, part, read);
        *static_cast<T*>(v) = static_cast<T>(read);
      };
    } else if constexpr (ListOfNumbers<T>) {
      list = [](const void* v) {
        const T& numbers = *static_cast<const T*>(v);
        return text::list(numbers.data(), numbers.size());
      };
      fill = [](void* v, const Tensor& t) {
        *static_cast<T*>(v) = t.template to_vector<typename T::value_type>();
      };
    } else {
      tensors = named_tensors(value, name);
    }
  }

  std::string name;
  std::vector<NamedTensor> tensors;
  void* object;
  // Set if the part is not tensors: text by key ("" for a single value), or a list of numbers.
  Metadata (*values)(const void*) = nullptr;
  void (*restore)(void*, const Metadata&, const std::string& part) = nullptr;
  Tensor (*list)(const void*) = nullptr;
  void (*fill)(void*, const Tensor&) = nullptr;

 private:
  template <class T>
  static constexpr T most() {
    if constexpr (std::is_same_v<T, bool>)
      return true;
    else if constexpr (std::is_signed_v<T>)
      return static_cast<T>((uint64_t{1} << (8 * sizeof(T) - 1)) - 1);
    else
      return static_cast<T>(~uint64_t{0});
  }
  template <class T>
  static constexpr T least() {
    return std::is_signed_v<T> ? static_cast<T>(-static_cast<int64_t>(most<T>()) - 1) : T(0);
  }
};
using CheckpointParts = std::vector<CheckpointPart>;

// Atomic and durable: the file holds the previous checkpoint or this one, even if the power fails.
void save_checkpoint(const std::string& path, const CheckpointParts& parts, Loc = MOTE_HERE);

// Everything is checked before anything is changed; one error lists all that does not fit. Other
// parts of the file are ignored. random: also restore the random numbers.
void load_checkpoint(const std::string& path, const CheckpointParts& parts, bool random = true,
                     Loc = MOTE_HERE);

// The values in a checkpoint that are not tensors, by name ("step", "order.epoch"), for example to
// make the objects that the rest is loaded into.
Metadata checkpoint_values(const std::string& path, Loc = MOTE_HERE);

}  // namespace mote

// jit(f): runs a function of tensors once, captures it once, then replays it without calling it.
//
//   auto step = jit([&](const Tensor& images, const Tensor& labels) {
//     opt.zero_grad();
//     Tensor loss = net(images).cross_entropy(labels);
//     loss.backward();
//     opt.step();
//     return loss;
//   });
//   for (...) total += step(images, labels);
//
// Call 1 runs f. Call 2 runs f and records every kernel. From call 3 on the recorded list runs and
// f is not called: anything it does besides tensor work does not happen, and numbers it reads keep
// their values of call 2. A jit gives the same bits as f: JIT=0, which calls f every time, changes
// no result. Therefore every call, in all modes, begins and ends in the same way:
//   * Pending work of this thread (writes, gradients of backward()) is finished first, then the
//     arguments are realized. So gradients do not flow through an argument to what it was
//     computed from. A pending tensor from outside is realized when f reads it, unless it depends
//     on a marked leaf.
//   * At the end the results, the writes and the gradients of f are in memory.
//
// Arguments and results are anything that fields.h walks: tensors, bound variables, structs with a
// MOTE_FIELDS line, and vectors, arrays, maps, optionals, pairs and tuples of these. A number (an
// int, a float) is a compile error, because its value would be baked into the list.
//   * Arguments are replaced by position. Their shape, dtype, device, marks (requires_grad_) and
//     number must be those of the capture: an error names the argument. Bound variables, also those
//     in the shapes of arguments, may change their value. A variable that f binds itself is an
//     error.
//   * An argument that is a view of a part of a tensor (or of all of it in another order) is copied
//     first. f sees the copy as a tensor of its own until it, or what it is a view of, is written;
//     from then on f sees the view. A result that is a view of such a copy is a copy.
//   * Other tensors that f uses (parameters, optimizer state, caches, random counters) are its
//     state, read and written where they are. Change them with assign() and the like, also between
//     calls.
//     Replacing a tensor that f reads (w = w + x) is an error of the capture or of the next replay,
//     but only if no other handle holds the old tensor; otherwise it goes undetected.
//     Making a tensor from host values (from_data) in f is an error: replays would not read them.
//   * Results are safe to keep: a replay writes to other memory while something holds an earlier
//     result. A result that is an argument, a state tensor or a view of one is so in replays too.
//   * Gradients that f reads, adds to, drops or leaves are those its leaves have at each call.
//   * Other new tensors that f leaves behind (in a variable it captured) keep the values of call 2.
//
// A list is valid in one situation: which of the arguments, state and gradients share memory,
// which arguments are views of a part, which leaves have a gradient, which tensors are marked,
// whether the modules that f called are training, which class the values of variables are of (one,
// few, many), and the autocast scope. In any other situation f
// is called; the second time it is also captured. The lists of the last twelve situations are kept.
// f is also called once more if an argument is another tensor than in the capture and the earlier
// one is still in use: comparing the two calls shows whether f uses the earlier one itself. DEBUG=1
// says why f is called.
//
// Reading values (item, to_vector, printing, and whatever counts elements: nonzero, masked_select)
// is an error in the capture: return the tensor and read it outside.
// After an error in f or in the capture the jit is as it was before the call; after reset(), as
// before call 1. Flags that change generated code keep their values of the capture. f runs in every
// call with JIT=0, and on devices that interpret graphs (there with the checks of a capture).
// A jit called inside another one's f becomes part of it, as if its function had been called. A jit
// that calls itself is an error. Calls from several threads take turns. Threads that nest
// two jits in opposite orders deadlock, as with any two locks.
#pragma once
#include <mote/fields.h>

namespace mote {

// A buffer that a captured function reads before it writes it.
struct JitState {
  std::string name;  // where it was found in what state() was given; otherwise "#3"
  Tensor tensor;     // undefined when no tensor has it for its own: then nothing writes it either
  std::vector<int64_t> shape;
  DType dtype = DType::none;
  std::string device;
  bool written = false;  // and changed by each call
};

class JitCore;  // engine/jit.h

// The part that does not depend on the function's type.
class JitBase {
 public:
  JitBase(const JitBase&) = delete;
  JitBase(JitBase&& other) noexcept : core_(other.core_) { other.core_ = nullptr; }
  void reset(Loc = MOTE_HERE);           // forget the capture: the next call is call 1
  bool captured(Loc = MOTE_HERE) const;  // there is a list
  // Buffers read before they are written, but for arguments, in the order of first use. Empty until
  // captured. Names are looked for among the tensors given.
  std::vector<JitState> state(const std::vector<NamedTensor>& names = {},
                              Loc = MOTE_HERE) const;

 protected:
  JitBase();
  ~JitBase();
  JitCore& core(const Loc& where) const;  // an error once it was moved from

 private:
  JitCore* core_;
};

// A result's form: what f returned, without its tensors.
struct JitForm {
  virtual ~JitForm() = default;
};
template <class R>
struct JitFormOf : JitForm {
  R value;
  explicit JitFormOf(const R& v) : value(v) {}
};

// Their addresses tell types apart. A variable is an expression like others.
template <class T>
inline constexpr char jit_type = 0;
template <class T>
inline constexpr const void* jit_type_of =
    &jit_type<std::conditional_t<std::is_base_of_v<Sym, T>, Sym, T>>;
template <class... T>
inline constexpr const void* jit_type_list[] = {jit_type_of<T>...};
struct JitTypes {
  const void* const* list = nullptr;  // the result's first
  size_t count = 0;
};

// One call; holds the function's lock. Errors leave through it.
class JitCall {
 public:
  enum Mode { Run, Capture, Replay };
  JitCall(JitCore& core, const JitTypes& types, const Loc& where);
  ~JitCall();
  JitCall(const JitCall&) = delete;

  void operator()(const std::string& path, const Tensor& t);  // an argument or a result found
  void operator()(const std::string& path, const Sym& s);
  template <class Module>
  requires requires(const Module& m) { static_cast<bool>(m.training); }
  void operator()(const std::string& path, const Module& m) { note_switch(path, m.training); }
  Mode start();              // all arguments are known; Replay: the list has run
  bool finish();             // f returned, its results are known; true: keep its form
  void keep(JitForm* form);  // takes it over
  const JitForm& form() const;
  Tensor next_tensor();  // of the replay, in the order of the form's walk
  Sym next_symbol();

 private:
  void note_switch(const std::string& path, bool on);
  JitCore& core_;
};

template <class F>
class Jit : public JitBase {
 public:
  explicit Jit(F f) : f_(std::move(f)) {}

  // A default argument, which is what knows the line of the call, cannot follow a pack.
  auto operator()(Loc at = MOTE_HERE) { return call(at); }
  template <class A>
  auto operator()(A&& a, Loc at = MOTE_HERE) {
    return call(at, std::forward<A>(a));
  }
  template <class A, class B>
  auto operator()(A&& a, B&& b, Loc at = MOTE_HERE) {
    return call(at, std::forward<A>(a), std::forward<B>(b));
  }
  template <class A, class B, class C>
  auto operator()(A&& a, B&& b, C&& c, Loc at = MOTE_HERE) {
    return call(at, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c));
  }
  template <class A, class B, class C, class D>
  auto operator()(A&& a, B&& b, C&& c, D&& d, Loc at = MOTE_HERE) {
    return call(at, std::forward<A>(a), std::forward<B>(b), std::forward<C>(c), std::forward<D>(d));
  }
  // With more arguments errors name this line; call(MOTE_HERE, a, b, ...) names another.
  template <class... Args>
  requires(sizeof...(Args) > 4) auto operator()(Args&&... args) {
    return call(MOTE_HERE, std::forward<Args>(args)...);
  }

  template <class... Args>
  auto call(const Loc& where, Args&&... args) {
    static_assert(!(is_number<Args> || ...),
                  "a jit takes no numbers, because the value would be baked into the list: pass a "
                  "tensor, tensor(0.5f), or for sizes and positions a bound Variable");
    using R = std::remove_cvref_t<decltype(f_(std::forward<Args>(args)...))>;
    const JitTypes types{jit_type_list<R, std::remove_cvref_t<Args>...>, 1 + sizeof...(Args)};
    JitCall call(core(where), types, where);
    size_t i = 0;
    (walk(args, std::to_string(i++), call), ...);
    if constexpr (std::is_void_v<R>) {
      if (call.start() == JitCall::Replay) return;
      f_(std::forward<Args>(args)...);
      call.finish();
    } else {
      if (call.start() == JitCall::Replay) return filled<R>(call);
      R out = f_(std::forward<Args>(args)...);
      walk_fields(out, "", call);
      if (call.finish()) keep_form(call, out);
      return out;
    }
  }

 private:
  F f_;

  template <class A>
  static constexpr bool is_number = std::is_arithmetic_v<std::remove_cvref_t<A>>;
  template <class A>
  static void walk(A& argument, const std::string& path, JitCall& call) {
    if constexpr (!is_number<A>) walk_fields(argument, path, call);
  }

  struct Clear {
    void operator()(const std::string&, Tensor& t) { t = {}; }
    void operator()(const std::string&, Sym& s) { s = {}; }
  };
  struct Fill {
    JitCall& call;
    void operator()(const std::string&, Tensor& t) { t = call.next_tensor(); }
    void operator()(const std::string&, Sym& s) { s = call.next_symbol(); }
  };

  template <class R>
  static void keep_form(JitCall& call, const R& out) {
    auto* form = new JitFormOf<R>(out);
    call.keep(form);
    walk_fields(form->value, "", Clear{});
  }
  template <class R>
  static R filled(JitCall& call) {
    R out = static_cast<const JitFormOf<R>&>(call.form()).value;
    walk_fields(out, "", Fill{call});
    return out;
  }
};

template <class F>
Jit<F> jit(F f) {
  return Jit<F>(std::move(f));
}

}  // namespace mote

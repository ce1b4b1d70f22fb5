// oneDNN 2, opened at run time and called through its C interface. Its descriptors are plain
// structs that only the library looks into; here they are rooms large enough for any of them.
#include <dlfcn.h>

#include <array>
#include <memory>

#include "base/error.h"
#include "cli/bench_cpu_peers.h"

namespace mote::bench {

namespace {

struct alignas(64) Room {
  std::array<std::byte, 8192> bytes;
};
using Handle = void*;
using Dims = int64_t[12];

// Values of the interface's enums.
constexpr int kF32 = 3, kCpu = 1, kInference = 96, kTraining = 64, kDirect = 1;
constexpr int kSoftmax = 0x30000, kLogSoftmax = 0x30001;
constexpr int kAny = 1, kRows[] = {0, 2, 3, 4, 5, 7};  // format tags: any; row-major by rank
constexpr int kAskInput = 129, kAskInputGradient = 130, kAskWeight = 131, kAskWeightGradient = 132,
              kAskOutput = 133, kAskOutputGradient = 134;
constexpr int kInput = 1, kOutput = 17, kWeight = 33, kScale = 51, kShift = 52;
constexpr int kGradient = 128;  // added to the three for their gradients
constexpr unsigned kUseScale = 8, kUseShift = 16;

struct Argument {
  int what;
  Handle memory;
};

struct Library {
  // clang-format off
  struct Version { int major, minor, patch; };
  const Version* (*version)();
  int (*engine_create)(Handle*, int, size_t);
  int (*stream_create)(Handle*, Handle, unsigned);
  int (*stream_wait)(Handle);
  int (*memory_desc_init_by_tag)(Room*, int, const int64_t*, int, int);
  int (*memory_desc_equal)(const void*, const void*);
  size_t (*memory_desc_get_size)(const void*);
  int (*memory_create)(Handle*, const void*, Handle, void*);
  int (*primitive_desc_create)(Handle*, const void*, Handle, Handle, Handle);
  const void* (*primitive_desc_query_md)(Handle, int, int);
  int (*primitive_create)(Handle*, Handle);
  int (*primitive_execute)(Handle, Handle, int, const Argument*);
  int (*reorder_primitive_desc_create)(Handle*, const void*, Handle, const void*, Handle, Handle);
  int (*convolution_forward_desc_init)(Room*, int, int, const Room*, const Room*, const Room*,
                                       const Room*, const int64_t*, const int64_t*, const int64_t*);
  int (*convolution_backward_data_desc_init)(Room*, int, const Room*, const Room*, const Room*,
                                             const int64_t*, const int64_t*, const int64_t*);
  int (*convolution_backward_weights_desc_init)(Room*, int, const Room*, const Room*, const Room*,
                                                const Room*, const int64_t*, const int64_t*,
                                                const int64_t*);
  int (*softmax_v2_forward_desc_init)(Room*, int, int, const Room*, const Room*, int);
  int (*layer_normalization_forward_desc_init)(Room*, int, const Room*, const Room*, float,
                                               unsigned);
  // clang-format on
  std::string missing;
  Handle engine = nullptr, stream = nullptr;

  Library() {
    void* opened = nullptr;
    for (const char* name : {"libdnnl.so.2", "libdnnl.so"})
      if (!opened) opened = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!opened) {
      missing = "no oneDNN 2 (package libdnnl2)";
      return;
    }
    auto find = [&](auto& function, const char* name) {
      void* found = dlsym(opened, (std::string("dnnl_") + name).c_str());
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(found);
      if (!found && missing.empty()) missing = text("this oneDNN has no dnnl_", name);
    };
#define FIND(name) find(name, #name)
    FIND(version), FIND(engine_create), FIND(stream_create), FIND(stream_wait);
    FIND(memory_desc_init_by_tag), FIND(memory_desc_equal);
    FIND(memory_desc_get_size), FIND(memory_create);
    FIND(primitive_desc_create), FIND(primitive_desc_query_md), FIND(primitive_create);
    FIND(primitive_execute), FIND(reorder_primitive_desc_create);
    FIND(convolution_forward_desc_init), FIND(convolution_backward_data_desc_init);
    FIND(convolution_backward_weights_desc_init), FIND(softmax_v2_forward_desc_init);
    FIND(layer_normalization_forward_desc_init);
#undef FIND
    if (missing.empty() && version()->major != 2)
      missing = text("oneDNN 2 is needed, this is ", version()->major);
    if (!missing.empty()) return;
    engine_create(&engine, kCpu, 0);
    stream_create(&stream, engine, 1);
  }
};
const Library& library() {
  static const Library it;
  return it;
}

void must(int status, const char* what) {
  if (status != 0) fail(ErrorKind::Device, text("[bench] oneDNN: ", what, " failed: ", status));
}

std::unique_ptr<Room> describe(const std::vector<int64_t>& shape, bool any = false) {
  auto out = std::make_unique<Room>();
  must(library().memory_desc_init_by_tag(out.get(), static_cast<int>(shape.size()), shape.data(),
                                         kF32, any ? kAny : kRows[shape.size()]),
       "describing memory");
  return out;
}

Handle memory(const void* description, void* data) {
  Handle out;
  must(library().memory_create(&out, description, library().engine, data), "memory");
  return out;
}

// The memory a primitive wants an operand in: the plain one, or one of its own.
struct Operand {
  Handle plain, used;
  const void *plain_form, *used_form;
  bool moved() const { return used != plain; }
};

// Primitives in order. The library's handles are small and stay for good.
struct Sequence {
  struct Call {
    Handle primitive;
    std::vector<Argument> arguments;
  };
  std::vector<Call> calls;
  std::vector<Array> held;

  void add(Handle description, std::vector<Argument> arguments) {
    Handle primitive;
    must(library().primitive_create(&primitive, description), "a primitive");
    calls.push_back({primitive, std::move(arguments)});
  }
  void reorder(const void* from_form, Handle from, const void* to_form, Handle to) {
    Handle description;
    must(library().reorder_primitive_desc_create(&description, from_form, library().engine, to_form,
                                                 library().engine, nullptr),
         "a reorder");
    add(description, {
                         {kInput,  from},
                         {kOutput, to  }
    });
  }
  Operand operand(const Room& plain_form, const void* used_form, const Array& array) {
    held.push_back(array);
    Handle plain = memory(&plain_form, array.data());
    if (library().memory_desc_equal(&plain_form, used_form))
      return {plain, plain, &plain_form, used_form};
    held.emplace_back(static_cast<int64_t>(library().memory_desc_get_size(used_form) / 4));
    return {plain, memory(used_form, held.back().data()), &plain_form, used_form};
  }
  void run() const {
    for (const Call& c : calls)
      library().primitive_execute(c.primitive, library().stream,
                                  static_cast<int>(c.arguments.size()), c.arguments.data());
    library().stream_wait(library().stream);
  }
};

Run runner(Sequence sequence) {
  return [s = std::make_shared<Sequence>(std::move(sequence))] { s->run(); };
}

struct ConvForms {
  std::unique_ptr<Room> input, weight, output;
  ConvForms(const ConvShape& s, bool any) {
    const int64_t o = s.out_size(), per_group = s.in / s.groups;
    input = describe({s.batch, s.in, s.size, s.size}, any);
    weight = s.groups == 1
                 ? describe({s.out, s.in, s.kernel, s.kernel}, any)
                 : describe({s.groups, s.out / s.groups, per_group, s.kernel, s.kernel}, any);
    output = describe({s.batch, s.out, o, o}, any);
  }
};

Handle conv_description(const ConvShape& s, ConvPass pass) {
  const Library& l = library();
  ConvForms f(s, true);
  auto room = std::make_unique<Room>();
  const Dims strides = {s.stride, s.stride}, padding = {s.padding, s.padding};
  const bool alone = pass == ConvPass::Forward;
  must(l.convolution_forward_desc_init(room.get(), alone ? kInference : kTraining, kDirect,
                                       f.input.get(), f.weight.get(), nullptr, f.output.get(),
                                       strides, padding, padding),
       "a convolution");
  Handle forward, backward;
  must(l.primitive_desc_create(&forward, room.get(), nullptr, l.engine, nullptr), "a convolution");
  if (pass == ConvPass::Forward) return forward;
  if (pass == ConvPass::GradInput)
    must(l.convolution_backward_data_desc_init(room.get(), kDirect, f.input.get(), f.weight.get(),
                                               f.output.get(), strides, padding, padding),
         "a convolution's gradient");
  else
    must(l.convolution_backward_weights_desc_init(room.get(), kDirect, f.input.get(),
                                                  f.weight.get(), nullptr, f.output.get(), strides,
                                                  padding, padding),
         "a convolution's gradient");
  must(l.primitive_desc_create(&backward, room.get(), nullptr, l.engine, forward),
       "a convolution's gradient");
  return backward;
}

}  // namespace

std::string onednn_missing() { return library().missing; }

Run onednn_conv(const ConvShape& s, ConvPass pass, const Array& a, const Array& b,
                const Array& out) {
  const Library& l = library();
  Handle description = conv_description(s, pass);
  ConvForms plain(s, false);
  auto wanted = [&](int what) { return l.primitive_desc_query_md(description, what, 0); };
  Sequence sequence;
  auto in = [&](const Room& form, int query, const Array& array) {
    Operand o = sequence.operand(form, wanted(query), array);
    if (o.moved()) sequence.reorder(o.plain_form, o.plain, o.used_form, o.used);
    return o.used;
  };
  Operand result;
  std::vector<Argument> arguments;
  if (pass == ConvPass::Forward) {
    arguments = {
        {kInput,  in(*plain.input,  kAskInput,  a)},
        {kWeight, in(*plain.weight, kAskWeight, b)}
    };
    result = sequence.operand(*plain.output, wanted(kAskOutput), out);
    arguments.push_back({kOutput, result.used});
  } else if (pass == ConvPass::GradInput) {
    arguments = {
        {kOutput + kGradient, in(*plain.output, kAskOutputGradient, a)},
        {kWeight,             in(*plain.weight, kAskWeight,         b)}
    };
    result = sequence.operand(*plain.input, wanted(kAskInputGradient), out);
    arguments.push_back({kInput + kGradient, result.used});
  } else {
    arguments = {
        {kInput,              in(*plain.input,  kAskInput,          a)},
        {kOutput + kGradient, in(*plain.output, kAskOutputGradient, b)}
    };
    result = sequence.operand(*plain.weight, wanted(kAskWeightGradient), out);
    arguments.push_back({kWeight + kGradient, result.used});
  }
  sequence.add(description, arguments);
  if (result.moved())
    sequence.reorder(result.used_form, result.used, result.plain_form, result.plain);
  return runner(std::move(sequence));
}

Run onednn_softmax(int64_t rows, int64_t columns, bool log, const Array& in, const Array& out) {
  const Library& l = library();
  std::unique_ptr<Room> form = describe({rows, columns}), room = std::make_unique<Room>();
  must(l.softmax_v2_forward_desc_init(room.get(), kInference, log ? kLogSoftmax : kSoftmax,
                                      form.get(), form.get(), 1),
       "softmax");
  Handle description;
  must(l.primitive_desc_create(&description, room.get(), nullptr, l.engine, nullptr), "softmax");
  Sequence s;
  s.held = {in, out};
  s.add(description,
        {
            {kInput,  memory(form.get(), in.data()) },
            {kOutput, memory(form.get(), out.data())}
  });
  return runner(std::move(s));
}

Run onednn_layer_norm(int64_t rows, int64_t columns, float eps, const Array& in, const Array& scale,
                      const Array& shift, const Array& out) {
  const Library& l = library();
  std::unique_ptr<Room> form = describe({rows, columns}), line = describe({columns}),
                        statistics = describe({rows}), room = std::make_unique<Room>();
  must(l.layer_normalization_forward_desc_init(room.get(), kInference, form.get(), statistics.get(),
                                               eps, kUseScale | kUseShift),
       "layer normalization");
  Handle description;
  must(l.primitive_desc_create(&description, room.get(), nullptr, l.engine, nullptr),
       "layer normalization");
  Sequence s;
  s.held = {in, scale, shift, out};
  s.add(description, {
                         {kInput,  memory(form.get(), in.data())   },
                         {kScale,  memory(line.get(), scale.data())},
                         {kShift,  memory(line.get(), shift.data())},
                         {kOutput, memory(form.get(), out.data())  }
  });
  return runner(std::move(s));
}

}  // namespace mote::bench

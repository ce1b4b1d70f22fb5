// torch.save's format: a zip with a pickle of a dict of tensors, and an entry per tensor's
// elements.
#include "io/archive.h"
#include "io/formats.h"
#include "tensor/impl.h"

namespace mote {

namespace {

struct TypeRow {
  DType dtype;
  const char* storage;
};
constexpr TypeRow types[] = {
    {DType::f32,     "FloatStorage"   },
    {DType::f64,     "DoubleStorage"  },
    {DType::f16,     "HalfStorage"    },
    {DType::bf16,    "BFloat16Storage"},
    {DType::u8,      "ByteStorage"    },
    {DType::i8,      "CharStorage"    },
    {DType::i16,     "ShortStorage"   },
    {DType::i32,     "IntStorage"     },
    {DType::i64,     "LongStorage"    },
    {DType::boolean, "BoolStorage"    },
};

const char* storage_name(const NamedTensor& t) {
  for (const TypeRow& row : types)
    if (row.dtype == t.tensor.dtype()) return row.storage;
  fail_call("PyTorch has no ", t.tensor.dtype(), " storage, which the tensor ", quoted(t.name),
            " needs; cast it first");
}

// The opcodes of a pickle of protocol 2, by what they do.
class PickleWriter {
 public:
  PickleWriter() { code("\x80\x02"); }
  void code(std::string_view opcodes) { out_.append(opcodes); }
  void global(std::string_view module, std::string_view name) {
    out_.append("c").append(module).append("\n").append(name).append("\n");
  }
  void text(std::string_view s) {
    out_ += 'X';
    number(static_cast<uint32_t>(s.size()), 4);
    out_.append(s);
  }
  void integer(int64_t v) {
    out_.append("\x8a\x08", 2);  // a long of 8 bytes
    number(static_cast<uint64_t>(v), 8);
  }
  void tuple(const std::vector<int64_t>& list) {
    out_ += '(';
    for (const int64_t v : list) integer(v);
    out_ += 't';
  }
  std::string finish() {
    out_ += '.';
    return std::move(out_);
  }

 private:
  void number(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) out_ += static_cast<char>(v >> 8 * i & 0xff);
  }
  std::string out_;
};

// torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, hooks)
void add_tensor(PickleWriter& p, const NamedTensor& t, size_t key) {
  const std::vector<int64_t> shape = t.tensor.shape();
  p.text(t.name);
  p.global("torch._utils", "_rebuild_tensor_v2");
  p.code("((");
  p.text("storage");
  p.global("torch", storage_name(t));
  p.text(std::to_string(key));
  p.text("cpu");
  p.integer(t.tensor.numel());
  p.code("tQ");
  p.integer(0);
  p.tuple(shape);
  p.tuple(row_major_strides(dims_of(t.tensor)));
  p.code("\x89");  // False
  p.global("collections", "OrderedDict");
  p.code(")RtR");
}

std::span<const uint8_t> bytes_of(const std::string& s) {
  return {reinterpret_cast<const uint8_t*>(s.data()), s.size()};
}

}  // namespace

void save_torch(const std::string& path, const std::vector<NamedTensor>& tensors, Loc where) {
  OuterCall call("save_torch", where);
  check_savable(tensors);
  PickleWriter p;
  p.global("collections", "OrderedDict");
  p.code(")R(");
  for (size_t i = 0; i < tensors.size(); ++i) add_tensor(p, tensors[i], i);
  p.code("u");
  const std::string pickle = p.finish(), order = "little", version = "3\n";
  OutputFile out(path);
  ZipWriter zip(out);
  zip.add("archive/data.pkl", {bytes_of(pickle)});
  zip.add("archive/byteorder", {bytes_of(order)});
  for (size_t i = 0; i < tensors.size(); ++i)
    zip.add("archive/data/" + std::to_string(i), {element_bytes(tensors[i].tensor)});
  zip.add("archive/version", {bytes_of(version)});
  zip.finish();
  out.commit();
}

}  // namespace mote

#include "io/pickle.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "ir/dtype.h"

namespace mote {

namespace {

// clang-format off
// What the name of a Python global stands for here.
enum class Role : uint8_t {
  OrderedDict, Sequence, FirstArgument, RebuildTensor, RebuildTyped, RebuildFromType, Class,
  StorageType, ElementType
};
struct Known {
  const char* module;
  const char* name;
  Role role;
  DType dtype = DType::none;
};

// All that a pickle may name.
constexpr Known known[] = {
    {"collections", "OrderedDict", Role::OrderedDict},
    {"builtins", "set", Role::Sequence},
    {"__builtin__", "set", Role::Sequence},
    {"torch", "Size", Role::Sequence},
    {"torch", "device", Role::FirstArgument},
    {"_codecs", "encode", Role::FirstArgument},
    {"torch._utils", "_rebuild_tensor_v2", Role::RebuildTensor},
    {"torch._utils", "_rebuild_tensor_v3", Role::RebuildTyped},
    {"torch._utils", "_rebuild_parameter", Role::FirstArgument},
    {"torch._utils", "_rebuild_parameter_with_state", Role::FirstArgument},
    {"torch._tensor", "_rebuild_from_type_v2", Role::RebuildFromType},
    {"torch", "Tensor", Role::Class},
    {"torch.nn.parameter", "Parameter", Role::Class},
    {"torch.nn.parameter", "Buffer", Role::Class},
    {"torch", "BoolStorage", Role::StorageType, DType::boolean},
    {"torch", "ByteStorage", Role::StorageType, DType::u8},
    {"torch", "CharStorage", Role::StorageType, DType::i8},
    {"torch", "ShortStorage", Role::StorageType, DType::i16},
    {"torch", "IntStorage", Role::StorageType, DType::i32},
    {"torch", "LongStorage", Role::StorageType, DType::i64},
    {"torch", "HalfStorage", Role::StorageType, DType::f16},
    {"torch", "BFloat16Storage", Role::StorageType, DType::bf16},
    {"torch", "FloatStorage", Role::StorageType, DType::f32},
    {"torch", "DoubleStorage", Role::StorageType, DType::f64},
    {"torch.storage", "UntypedStorage", Role::StorageType},
    {"torch", "UntypedStorage", Role::StorageType},
    {"torch", "bool", Role::ElementType, DType::boolean},
    {"torch", "uint8", Role::ElementType, DType::u8},
    {"torch", "uint16", Role::ElementType, DType::u16},
    {"torch", "uint32", Role::ElementType, DType::u32},
    {"torch", "uint64", Role::ElementType, DType::u64},
    {"torch", "int8", Role::ElementType, DType::i8},
    {"torch", "int16", Role::ElementType, DType::i16},
    {"torch", "int32", Role::ElementType, DType::i32},
    {"torch", "int64", Role::ElementType, DType::i64},
    {"torch", "float16", Role::ElementType, DType::f16},
    {"torch", "bfloat16", Role::ElementType, DType::bf16},
    {"torch", "float32", Role::ElementType, DType::f32},
    {"torch", "float64", Role::ElementType, DType::f64},
    {"torch", "float8_e4m3fn", Role::ElementType, DType::f8e4m3},
    {"torch", "float8_e5m2", Role::ElementType, DType::f8e5m2},
};

// The opcodes that picklers of protocols 2 to 5 write for such data.
enum Op : uint8_t {
  Mark = '(', Stop = '.', Pop = '0', PopMark = '1', BinFloat = 'G', BinInt = 'J', BinInt1 = 'K',
  BinInt2 = 'M', NoneOp = 'N', BinPersId = 'Q', Reduce = 'R', BinUnicode = 'X', Append = 'a',
  Build = 'b', GlobalOp = 'c', Appends = 'e', BinGet = 'h', LongBinGet = 'j', BinPut = 'q',
  LongBinPut = 'r', SetItem = 's', TupleOp = 't', SetItems = 'u', EmptyDict = '}',
  EmptyList = ']', EmptyTuple = ')', ShortBinString = 'U', BinString = 'T', BinBytes = 'B',
  ShortBinBytes = 'C', Proto = 0x80, NewObj = 0x81, Tuple1 = 0x85, Tuple2 = 0x86, Tuple3 = 0x87,
  NewTrue = 0x88, NewFalse = 0x89, Long1 = 0x8a, ShortBinUnicode = 0x8c, BinUnicode8 = 0x8d,
  EmptySet = 0x8f, AddItems = 0x90, StackGlobal = 0x93, Memoize = 0x94, Frame = 0x95
};
// clang-format on

}  // namespace

// The stack machine.
class Unpickler {
 public:
  Unpickler(const File& file, const Pickle::FindStorage& storage, uint64_t stored, Pickle& out)
      : in_(file), find_storage_(storage), budget_(128 * stored + (16 << 20)), out_(out) {}

  void run() {
    for (;;) {
      const uint8_t op = in_.u8("the pickle");
      if (op == Stop) break;
      step(op);
    }
    out_.root_ = pop();
    in_.check(stack_.empty() && marks_.empty(), "the pickle ends with values left over");
  }

 private:
  using Value = Pickle::Value;
  struct StorageRef {
    DType dtype;  // none: bytes
    Bytes bytes;
  };

  void step(uint8_t op) {
    if (!push_plain(op) && !push_container(op) && !fill_container(op) && !use_memo(op) &&
        !call(op)) {
      in_.check(false, "the pickle's opcode ", int{op}, " at byte ", in_.at() - 1,
                " is not one that a checkpoint needs");
    }
  }

  // Numbers, texts and the like.
  bool push_plain(uint8_t op) {
    switch (op) {
      case NoneOp: push({}); return true;
      case NewTrue: push_number(Pickle::Bool, 1); return true;
      case NewFalse: push_number(Pickle::Bool, 0); return true;
      case BinInt: push_number(Pickle::Int, in_.read<int32_t>("a number")); return true;
      case BinInt1: push_number(Pickle::Int, in_.u8("a number")); return true;
      case BinInt2: push_number(Pickle::Int, in_.u16("a number")); return true;
      case Long1: push_long(); return true;
      case BinFloat: push_float(); return true;
      case ShortBinUnicode: push_text(in_.text(in_.u8("a text's length"), "a text")); return true;
      case BinUnicode: push_text(in_.text(in_.u32("a text's length"), "a text")); return true;
      case BinUnicode8: push_text(in_.text(in_.u64("a text's length"), "a text")); return true;
      case ShortBinString:
      case ShortBinBytes: push_bytes(in_.u8("a text's length")); return true;
      case BinString:
      case BinBytes: push_bytes(in_.u32("a text's length")); return true;
      case Proto: read_protocol(); return true;
      case Frame: in_.skip(8, "a frame's length"); return true;
      case Pop: pop(); return true;
      default: return false;
    }
  }

  bool push_container(uint8_t op) {
    switch (op) {
      case EmptyDict: push_items(Pickle::Dict, {}); return true;
      case EmptySet:
      case EmptyList: push_items(Pickle::List, {}); return true;
      case EmptyTuple: push_items(Pickle::Tuple, {}); return true;
      case Tuple1: push_items(Pickle::Tuple, pop_many(1)); return true;
      case Tuple2: push_items(Pickle::Tuple, pop_many(2)); return true;
      case Tuple3: push_items(Pickle::Tuple, pop_many(3)); return true;
      case TupleOp: push_items(Pickle::Tuple, pop_to_mark()); return true;
      case Mark:
        spend(sizeof marks_[0]);
        marks_.push_back(stack_.size());
        return true;
      case PopMark: pop_to_mark(); return true;
      default: return false;
    }
  }

  bool fill_container(uint8_t op) {
    switch (op) {
      case Append: add_to(Pickle::List, pop_many(1)); return true;
      case AddItems:
      case Appends: add_to(Pickle::List, pop_to_mark()); return true;
      case SetItem: add_to(Pickle::Dict, pop_many(2)); return true;
      case SetItems: add_to(Pickle::Dict, pop_to_mark()); return true;
      default: return false;
    }
  }

  bool use_memo(uint8_t op) {
    switch (op) {
      case BinPut: put(in_.u8("a memo index")); return true;
      case LongBinPut: put(in_.u32("a memo index")); return true;
      case Memoize: put(memo_.size()); return true;
      case BinGet: get(in_.u8("a memo index")); return true;
      case LongBinGet: get(in_.u32("a memo index")); return true;
      default: return false;
    }
  }

  bool call(uint8_t op) {
    switch (op) {
      case GlobalOp: {
        const std::string_view module = take_line(), name = take_line();
        push_global(module, name);
        return true;
      }
      case StackGlobal: {
        const std::vector<Value> names = pop_many(2);
        need(names[0], Pickle::Text, "a global's module");
        need(names[1], Pickle::Text, "a global's name");
        push_global(names[0].as_text(), names[1].as_text());
        return true;
      }
      case NewObj:
      case Reduce: reduce(); return true;
      case Build: {  // sets attributes, which hold no tensors of the state
        pop();
        const Value& target = top();
        in_.check(target.kind == Pickle::Dict || target.kind == Pickle::Tensor,
                  "the pickle sets the state of something other than a dict or a tensor");
        return true;
      }
      case BinPersId: load_storage(); return true;
      default: return false;
    }
  }

  // The stack. What stands below the innermost mark is out of reach.
  void push(const Value& v) {
    spend(sizeof v);
    stack_.push_back(v);
  }
  // Counts memory, whether or not it was given back: values have a few bytes each in the file.
  void spend(size_t bytes) {
    in_.check(bytes <= budget_, "the pickle makes far more of its bytes than a checkpoint would");
    budget_ -= bytes;
  }
  Value& top() {
    in_.check(stack_.size() > (marks_.empty() ? 0 : marks_.back()),
              "the pickle takes a value from an empty stack at byte ", in_.at() - 1);
    return stack_.back();
  }
  Value pop() {
    const Value out = top();
    stack_.pop_back();
    return out;
  }
  std::vector<Value> pop_many(size_t count) {
    std::vector<Value> out(count);
    while (count) out[--count] = pop();
    return out;
  }
  std::vector<Value> pop_to_mark() {
    in_.check(!marks_.empty(), "the pickle looks for a mark that is not there at byte ",
              in_.at() - 1);
    const auto begin = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
    std::vector<Value> out(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return out;
  }

  void push_number(Pickle::Kind kind, int64_t n) {
    Value v;
    v.kind = kind, v.number = n;
    push(v);
  }
  void push_text(std::string_view s) {
    in_.check(s.size() < UINT32_MAX, "a text of ", s.size(), " bytes is too long");
    Value v;
    v.kind = Pickle::Text, v.length = static_cast<uint32_t>(s.size()), v.text = s.data();
    push(v);
  }
  void push_bytes(uint64_t length) {
    const auto bytes = in_.take(length, "a text");
    const std::string_view s(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    push_text(is_utf8(s) ? s : "(bytes)");
  }
  void push_items(Pickle::Kind kind, std::vector<Value> items) {
    spend(sizeof items + items.size() * sizeof(Value));
    push_number(kind, static_cast<int64_t>(out_.containers_.size()));
    out_.containers_.push_back(std::move(items));
  }
  void push_float() {
    const auto bits = __builtin_bswap64(in_.u64("a number"));
    Value v;
    v.kind = Pickle::Float, v.real = std::bit_cast<double>(bits);
    push(v);
  }
  // Little-endian, in two's complement. Past 64 bits only the magnitude is kept.
  void push_long() {
    const auto bytes = in_.take(in_.u8("a number's length"), "a number");
    const bool negative = !bytes.empty() && bytes.back() & 0x80;
    if (bytes.size() <= 8) {
      uint64_t bits = negative ? ~uint64_t{0} : 0;
      std::memcpy(&bits, bytes.data(), bytes.size());
      return push_number(Pickle::Int, static_cast<int64_t>(bits));
    }
    Value v;
    v.kind = Pickle::Float, v.real = negative ? -1 : 0;
    for (size_t i = bytes.size(); i--;) v.real = v.real * 256 + bytes[i];
    push(v);
  }
  void read_protocol() {
    const int version = in_.u8("the pickle's protocol");
    in_.check(version >= 2 && version <= 5, "the pickle's protocol ", version, " is not 2 to 5");
  }
  std::string_view take_line() {
    const size_t begin = in_.at();
    while (in_.u8("a global's name") != '\n') {}
    const size_t length = in_.at() - begin - 1;
    in_.seek(begin, "a global's name");
    const std::string_view line = in_.text(length, "a global's name");
    in_.skip(1, "a global's name");
    return line;
  }

  void add_to(Pickle::Kind kind, const std::vector<Value>& more) {
    const Value& target = top();
    in_.check(target.kind == kind, "the pickle adds items to what is not a ",
              kind == Pickle::Dict ? "dict" : "list");
    in_.check(kind != Pickle::Dict || more.size() % 2 == 0, "a dict has a key without a value");
    spend(more.size() * sizeof(Value));
    std::vector<Value>& items = items_of(target);
    items.insert(items.end(), more.begin(), more.end());
  }
  std::vector<Value>& items_of(const Value& v) {
    return out_.containers_[static_cast<size_t>(v.number)];
  }

  // Indices are small: a pickler counts what it has put.
  void put(uint64_t index) {
    in_.check(index < in_.size(), "the memo index ", index, " is more than a pickle of ",
              in_.size(), " bytes can need");
    const Value v = top();
    if (index >= memo_.size()) {
      spend((index + 1 - memo_.size()) * sizeof(Value));
      memo_.resize(index + 1, unset());
    }
    memo_[index] = v;
  }
  void get(uint64_t index) {
    in_.check(index < memo_.size() && memo_[index].length != UINT32_MAX, "the memo has no entry ",
              index);
    push(memo_[index]);
  }
  static Value unset() {
    Value v;
    v.length = UINT32_MAX;
    return v;
  }

  void push_global(std::string_view module, std::string_view name) {
    for (const Known& k : known)
      if (module == k.module && name == k.name) return push_number(Pickle::Global, &k - known);
    fail_file(in_.name(), text("the pickle wants ", quoted(text(module, ".", name)),
                               ", which is not among what a checkpoint of tensors needs"));
  }
  const Known& global(const Value& v) { return known[v.number]; }
  void need(const Value& v, Pickle::Kind kind, const char* what) {
    in_.check(v.kind == kind, what, " in the pickle has the wrong type");
  }
  int64_t number(const Value& v, const char* what) {
    need(v, Pickle::Int, what);
    return v.number;
  }

  // What a call of a known global gives. Nothing is called.
  void reduce() {
    const Value arguments = pop(), function = pop();
    need(arguments, Pickle::Tuple, "a call's arguments");
    need(function, Pickle::Global, "what is called");
    push(result_of(global(function), items_of(arguments)));
  }
  Value result_of(const Known& function, const std::vector<Value>& arguments) {
    auto need_count = [&](size_t least) {
      in_.check(arguments.size() >= least, function.name, " is called with ", arguments.size(),
                " arguments");
    };
    switch (function.role) {
      case Role::OrderedDict: return ordered_dict(arguments);
      case Role::Sequence:
        need_count(1);
        in_.check(arguments[0].kind == Pickle::Tuple || arguments[0].kind == Pickle::List,
                  function.name, " is called with the wrong type");
        return arguments[0];
      case Role::FirstArgument: need_count(1); return arguments[0];
      case Role::RebuildTensor: need_count(4); return tensor_of(arguments, DType::none);
      case Role::RebuildTyped:
        need_count(7);
        need(arguments[6], Pickle::Global, "a tensor's dtype");
        in_.check(global(arguments[6]).role == Role::ElementType,
                  "a tensor's dtype in the pickle is not one");
        return tensor_of(arguments, global(arguments[6]).dtype);
      case Role::RebuildFromType: need_count(3); return from_type(arguments);
      default: break;
    }
    fail_file(in_.name(),
              text("the pickle calls ", quoted(text(function.module, ".", function.name)),
                   ", which is not a function"));
  }
  // Of nothing, or of a list of pairs.
  Value ordered_dict(const std::vector<Value>& arguments) {
    std::vector<Value> items;
    if (!arguments.empty()) {
      need(arguments[0], Pickle::List, "OrderedDict's argument");
      for (const Value& pair : items_of(arguments[0])) {
        in_.check(
            (pair.kind == Pickle::Tuple || pair.kind == Pickle::List) && items_of(pair).size() == 2,
            "OrderedDict's argument has an item that is not a pair");
        for (const Value& v : items_of(pair)) items.push_back(v);
      }
    }
    push_items(Pickle::Dict, std::move(items));
    return pop();
  }
  // (function, class, arguments, attributes)
  Value from_type(const std::vector<Value>& arguments) {
    need(arguments[0], Pickle::Global, "what is called");
    need(arguments[2], Pickle::Tuple, "a call's arguments");
    in_.check(global(arguments[0]).role != Role::RebuildFromType,
              "_rebuild_from_type_v2 calls itself");
    return result_of(global(arguments[0]), items_of(arguments[2]));
  }

  // ('storage', type, key, where, count)
  void load_storage() {
    const Value id = pop();
    need(id, Pickle::Tuple, "a storage's identity");
    const std::vector<Value>& parts = items_of(id);
    in_.check(parts.size() == 5, "a storage's identity has ", parts.size(), " parts, not 5");
    need(parts[0], Pickle::Text, "a storage's identity");
    need(parts[1], Pickle::Global, "a storage's type");
    need(parts[2], Pickle::Text, "a storage's key");
    in_.check(parts[0].as_text() == "storage" && global(parts[1]).role == Role::StorageType,
              "the pickle refers to something that is not a storage");
    const int64_t count = number(parts[4], "a storage's size");
    const DType dtype = global(parts[1]).dtype;
    const std::string_view key = parts[2].as_text();
    Bytes bytes = find_storage_(key);
    const int64_t each = dtype == DType::none ? 1 : size_of(dtype);
    if (count < 0 || static_cast<uint64_t>(count) != bytes.size() / static_cast<uint64_t>(each) ||
        bytes.size() % static_cast<uint64_t>(each))
      fail_file(in_.name(), text("the storage ", quoted(key), " has ", bytes.size(), " bytes, not ",
                                 count, " elements of ", each, " bytes"));
    spend(sizeof(StorageRef));
    push_number(Pickle::Storage, static_cast<int64_t>(storages_.size()));
    storages_.push_back({dtype, std::move(bytes)});
  }

  std::vector<int64_t> numbers(const Value& v, const char* what) {
    in_.check(v.kind == Pickle::Tuple || v.kind == Pickle::List, what,
              " in the pickle has the wrong type");
    const std::vector<Value>& items = items_of(v);
    in_.check(items.size() <= kMostAxes, what, " has ", items.size(), " axes, more than ",
              kMostAxes);
    std::vector<int64_t> out;
    for (const Value& n : items) out.push_back(number(n, what));
    return out;
  }

  // (storage, offset, sizes, strides, ...)
  Value tensor_of(const std::vector<Value>& arguments, DType dtype) {
    need(arguments[0], Pickle::Storage, "a tensor's storage");
    const StorageRef& storage = storages_[static_cast<size_t>(arguments[0].number)];
    StoredTensor t;
    t.dtype = dtype == DType::none ? storage.dtype : dtype;
    in_.check(t.dtype != DType::none, "a tensor of an untyped storage has no dtype");
    const int64_t offset = number(arguments[1], "a tensor's offset");
    t.shape = numbers(arguments[2], "a tensor's shape");
    t.strides = numbers(arguments[3], "a tensor's strides");
    in_.check(t.strides.size() == t.shape.size(), "a tensor of shape ", t.shape,
              " has the strides ", t.strides);
    spend(sizeof t + 2 * sizeof(int64_t) * t.shape.size());
    set_bytes(t, offset, storage.bytes);
    push_number(Pickle::Tensor, static_cast<int64_t>(out_.tensors_.size()));
    out_.tensors_.push_back(std::move(t));
    return pop();
  }

  // Cuts out what the elements reach, and drops strides that are row-major.
  void set_bytes(StoredTensor& t, int64_t offset, const Bytes& storage) {
    const auto each = static_cast<uint64_t>(size_of(t.dtype));
    const uint64_t bytes = byte_size(in_.name(), "a tensor", t.shape, each);
    int64_t last = offset, expected = 1;
    bool inside = offset >= 0, row_major = true;
    for (size_t i = t.shape.size(); i--;) {
      int64_t step = 0;
      inside &= t.strides[i] >= 0 && !__builtin_mul_overflow(t.shape[i] - 1, t.strides[i], &step) &&
                (bytes == 0 || !__builtin_add_overflow(last, step, &last));
      row_major &= t.shape[i] == 1 || t.strides[i] == expected;
      expected *= std::max<int64_t>(t.shape[i], 1);
    }
    const uint64_t elements = storage.size() / each;
    inside &= bytes == 0 || static_cast<uint64_t>(last) < elements;
    in_.check(inside, "a tensor of shape ", t.shape, " and strides ", t.strides, " from element ",
              offset, " on reaches outside its storage of ", elements, " elements");
    if (bytes == 0 || row_major) t.strides.clear();
    if (bytes)
      t.bytes = storage.part(static_cast<uint64_t>(offset) * each,
                             static_cast<uint64_t>(last - offset + 1) * each);
  }

  Reader in_;
  const Pickle::FindStorage& find_storage_;
  size_t budget_;
  Pickle& out_;
  std::vector<Value> stack_, memo_;
  std::vector<size_t> marks_;
  std::vector<StorageRef> storages_;
};

std::string Pickle::global_name(const Value& v) {
  return text(known[v.number].module, ".", known[v.number].name);
}

Pickle::Pickle(const File& file, const FindStorage& storage, uint64_t stored) {
  Unpickler(file, storage, stored, *this).run();
}

}  // namespace mote

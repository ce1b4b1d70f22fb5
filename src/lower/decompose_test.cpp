#include "lower/decompose.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <random>

#include "ir/print.h"
#include "ir/spec.h"
#include "lower/block_eval_test.h"
#include "lower/lower.h"
#include "runtime/interp_program.h"
#include "test/amount.h"

using namespace mote;

namespace {

constexpr DType all_ints[] = {DType::u8, DType::u16, DType::u32, DType::u64,
                              DType::i8, DType::i16, DType::i32, DType::i64};
constexpr DType all_floats[] = {DType::f8e4m3, DType::f8e5m2, DType::bf16,
                                DType::f16,    DType::f32,    DType::f64};
constexpr DType narrow_floats[] = {DType::f8e4m3, DType::f8e5m2, DType::bf16, DType::f16};

int64_t wrapped(int64_t a, int64_t b) {
  Scalar src[] = {scalar(DType::i64, a), scalar(DType::i64, b)};
  return eval(Op::Add, DType::i64, src).i;
}

// Integers near the edges of the type and of shift amounts, and any bits; floats around those.
Scalar random_scalar(DType d, std::mt19937_64& random) {
  uint64_t r = random(), bits = random();
  static constexpr int64_t near[] = {
      0,        1,         -1,        2,         7,          8,         15,         16,
      31,       32,        63,        64,        INT32_MIN,  INT32_MAX, UINT32_MAX, INT8_MIN,
      INT8_MAX, UINT8_MAX, INT16_MIN, INT16_MAX, UINT16_MAX, INT64_MIN, INT64_MAX,  100};
  int64_t edge = near[r >> 8 & 15] ^ (r & 1 ? -1 : 0);
  edge = r & 2 ? near[(r >> 16) % std::size(near)] : edge;
  edge = wrapped(edge, static_cast<int64_t>(r >> 40 & 3) - 1);
  if (!is_float(d))
    return r & 4 ? scalar(d, static_cast<int64_t>(bits) >> (r >> 24 & 63)) : scalar(d, edge);
  static constexpr double odd[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 0.5, -0.5, 0x1p-149};
  if ((r & 12) == 12) return scalar(d, odd[r >> 20 & 7]);
  if (r & 4) return scalar(d, static_cast<double>(edge) + 0.25 * static_cast<double>(r >> 50 & 7));
  if (r & 16)
    return scalar(d, std::ldexp(static_cast<double>(bits), -static_cast<int>(r >> 20 & 127)));
  if (r & 32)
    return scalar(d, static_cast<double>(std::bit_cast<float>(static_cast<uint32_t>(bits))));
  return {d, 0, load_float(d, &bits)};
}

void write(void* p, int i, const Scalar& s) {
  char* at = static_cast<char*>(p) + i * size_of(s.dtype);
  if (is_float(s.dtype))
    store_float(s.dtype, at, s.f);
  else
    store_int(s.dtype, at, s.i);
}
Scalar read(DType d, const void* p, int i) {
  const char* at = static_cast<const char*>(p) + i * size_of(d);
  if (is_float(d)) return {d, 0, load_float(d, at)};
  return {d, load_int(d, at), 0};
}

// Runs `graph` over random inputs of these dtypes and compares with `expected`, bit for bit.
template <class Expected>
size_t mismatches(UOp graph, std::span<const DType> inputs, size_t count, Expected expected) {
  BlockEval eval_graph(graph);
  std::mt19937_64 random(5);
  size_t wrong = 0;
  for (size_t done = 0; done < count; done += BlockEval::kBlock) {
    std::vector<std::vector<Scalar>> values(inputs.size());
    for (size_t s = 0; s < inputs.size(); ++s)
      for (int i = 0; i < BlockEval::kBlock; ++i) {
        values[s].push_back(random_scalar(inputs[s], random));
        if (eval_graph.has_input(static_cast<int>(s)))
          write(eval_graph.input<char>(static_cast<int>(s)), i, values[s].back());
      }
    eval_graph.run_reference();
    for (int i = 0; i < BlockEval::kBlock; ++i) {
      Scalar src[3];
      for (size_t s = 0; s < inputs.size(); ++s) src[s] = values[s][static_cast<size_t>(i)];
      Scalar want = expected(std::span<const Scalar>(src, inputs.size()));
      Scalar got = read(graph->dtype, eval_graph.result<char>(), i);
      if (!same_bits(got, want) && wrong++ == 0)
        MESSAGE("got ", got.i, " ", got.f, " want ", want.i, " ", want.f, " of ", src[0].i, " ",
                src[0].f, ", ", src[1].i, " ", src[1].f, ", ", src[2].f, "\n", print(graph));
    }
  }
  if (eval_graph.unsafe()) MESSAGE("not plain: ", print(eval_graph.unsafe_node()));
  return wrong + eval_graph.unsafe();
}

Target everything() { return Target{}; }

// The op on inputs of these dtypes, decomposed for the target, against ir/eval.
size_t op_mismatches(Op op, DType dtype, std::initializer_list<DType> inputs, const Target& target,
                     size_t count) {
  Arena arena;
  ArenaScope scope(arena);
  std::vector<UOp> src;
  for (DType d : inputs) src.push_back(input(static_cast<int>(src.size()), d));
  UOp graph = expand_ops(make(op, dtype, src), target);
  return mismatches(graph, std::span(inputs.begin(), inputs.size()), count,
                    [&](std::span<const Scalar> s) { return eval(op, dtype, s); });
}

std::string op_name(Op op, DType d) { return std::string(name(op)) + " " + name(d); }

}  // namespace

TEST_CASE("decompose: division, modulo and shifts of any operands") {
  for (DType d : all_ints)
    for (Op op : {Op::IDiv, Op::IMod, Op::Shl, Op::Shr})
      CHECK_MESSAGE(op_mismatches(op, d, {d, d}, everything(), test::scaled<size_t>(4000)) == 0, op_name(op, d));
}

TEST_CASE("decompose: bools do not wrap") {
  constexpr DType b = DType::boolean;
  for (Op op :
       {Op::Add, Op::Mul, Op::Max, Op::Min, Op::IDiv, Op::IMod, Op::Lt, Op::Eq, Op::Shl, Op::Shr})
    CHECK_MESSAGE(op_mismatches(op, b, {b, b}, everything(), 1) == 0, op_name(op, b));
  CHECK(op_mismatches(Op::Neg, b, {b}, everything(), 1) == 0);
}

TEST_CASE("decompose: floor division and modulo of any signs") {
  Arena arena;
  ArenaScope scope(arena);
  UOp r = range(0, index(1000), Role::Loop), s = range(1, index(50), Role::Loop);
  struct Case {
    UOp a, b;
  };
  const Case cases[] = {
      {r,             index(7)   },
      {r + -500,      index(7)   },
      {r + -500,      index(8)   },
      {r,             index(16)  },
      {r + -500,      s + 1      },
      {r,             s + 1      },
      {r + -500,      index(-7)  },
      {r + -500,      s * -1 + -1},
      {r + -500,      s * 2 + -49},
      {r * 5 + -2500, index(-8)  }
  };
  for (const Case& c : cases)
    for (Op op : {Op::FloorDiv, Op::FloorMod}) {
      UOp graph = expand_ops(binary(op, c.a, c.b), everything());
      BlockEval now(graph), a(c.a), b(c.b);
      size_t wrong = 0;
      for (int64_t base = 0; base < 50'000; base += BlockEval::kBlock) {
        for (BlockEval* e : {&now, &a, &b})
          for (int64_t i = 0; i < BlockEval::kBlock; ++i) {
            if (e->has_input(kRanges)) e->input<int64_t>(kRanges)[i] = (base + i) % 1000;
            if (e->has_input(kRanges + 1))
              e->input<int64_t>(kRanges + 1)[i] = (base + i) / 1000 % 50;
          }
        now.run_reference();
        if (!is_const(c.a)) a.run_reference();
        if (!is_const(c.b)) b.run_reference();
        for (int i = 0; i < BlockEval::kBlock; ++i) {
          Scalar src[] = {read(DType::index, a.result<char>(), i),
                          read(DType::index, b.result<char>(), i)};
          wrong +=
              !same_bits(read(DType::index, now.result<char>(), i), eval(op, DType::index, src));
        }
      }
      CHECK_MESSAGE(wrong + now.unsafe() == 0, print(graph));
    }
}

TEST_CASE("decompose: guards go where the interval shows that they can") {
  Arena arena;
  ArenaScope scope(arena);
  auto c = [](int64_t v) { return constant(DType::i32, v); };
  UOp x = input(0, DType::i32), one_up = cast(input(1, DType::u8), DType::i32) + c(1);
  UOp small = one_up & c(15);
  CHECK(decompose_divide(Op::IDiv, x, one_up) == binary(Op::IDiv, x, one_up));
  CHECK(decompose_divide(Op::IMod, x, c(10)) == binary(Op::IMod, x, c(10)));
  CHECK(decompose_divide(Op::IDiv, small, c(4)) == binary(Op::Shr, small, c(2)));
  CHECK(decompose_divide(Op::IMod, small, c(4)) == (small & c(3)));
  CHECK(decompose_divide(Op::IDiv, x, c(0)) == c(0));
  CHECK(!decompose_shift(Op::Shl, x, small));
  UOp wide = input(2, DType::u64), amount = cast(cast(small, DType::u32), DType::u64);
  CHECK(!decompose_shift(Op::Shr, wide, amount));
  CHECK(decompose_shift(Op::Shr, wide, input(3, DType::u64)));
  UOp r = range(0, index(100), Role::Loop);
  CHECK(decompose_floor(Op::FloorDiv, r, index(3)) == binary(Op::IDiv, r, index(3)));
  CHECK(decompose_floor(Op::FloorMod, r, index(8)) == (r & index(7)));
  CHECK(decompose_floor(Op::FloorDiv, r + -50, index(8)) == binary(Op::Shr, r + -50, index(3)));
}

TEST_CASE("decompose: casts between all dtypes") {
  std::vector<DType> types(std::begin(all_ints), std::end(all_ints));
  types.insert(types.end(), std::begin(all_floats), std::end(all_floats));
  types.push_back(DType::boolean);
  for (DType from : types)
    for (DType to : types)
      CHECK_MESSAGE(op_mismatches(Op::Cast, to, {from}, everything(), test::scaled<size_t>(4000)) == 0,
                    (std::string(name(from)) + " to " + name(to)));
}

TEST_CASE("decompose: threefry") {
  CHECK(op_mismatches(Op::Threefry, DType::u64, {DType::u64, DType::u64}, everything(), 2000) == 0);
}

TEST_CASE("decompose: multiply-add rounds once without hardware for it") {
  Target plain;
  plain.fma = false;
  CHECK(op_mismatches(Op::MulAdd, DType::f32, {DType::f32, DType::f32, DType::f32}, plain,
                      test::scaled<size_t>(200'000)) == 0);
  Target fused = plain;
  fused.fma = true;
  Arena arena;
  ArenaScope scope(arena);
  UOp x = input(0, DType::f32);
  CHECK(!decompose_mul_add(x, x, x, fused));
}

TEST_CASE("decompose: every pattern of the narrow floats decodes and encodes back") {
  for (DType d : narrow_floats) {
    Arena arena;
    ArenaScope scope(arena);
    const DType bits = bits_type(row(d).bits);
    UOp value = decode_float(input(0, bits), d);
    BlockEval decode(value), both(encode_float(value, d));
    size_t wrong = 0;
    for (int base = 0; base < 1 << row(d).bits; base += BlockEval::kBlock) {
      for (int i = 0; i < BlockEval::kBlock; ++i) {
        Scalar code = scalar(bits, int64_t{base + i});
        write(decode.input<char>(0), i, code);
        write(both.input<char>(0), i, code);
      }
      decode.run_reference();
      both.run_reference();
      for (int i = 0; i < BlockEval::kBlock; ++i) {
        int64_t code = wrap_to(bits, base + i);
        Scalar want{DType::f32, 0, load_float(d, &code)};
        wrong += !same_bits(read(DType::f32, decode.result<char>(), i), want);
        if (!std::isnan(want.f)) wrong += read(bits, both.result<char>(), i).i != code;
      }
    }
    CHECK_MESSAGE(wrong + decode.unsafe() + both.unsafe() == 0, std::string(name(d)));
  }
}

TEST_CASE("decompose: encoding rounds to nearest even, also from f64") {
  for (DType d : narrow_floats) {
    Arena arena;
    ArenaScope scope(arena);
    const std::string type = name(d);
    auto bits_of = [&](double v) {
      uint64_t raw = 0;
      store_float(d, &raw, v);
      return raw;
    };
    for (DType from : {DType::f32, DType::f64}) {
      UOp x = input(0, from);
      BlockEval graph(encode_float(from == DType::f64 ? narrow_to_odd(x) : x, d));
      std::mt19937_64 random(11);
      size_t wrong = 0;
      for (size_t done = 0; done < test::scaled<size_t>(100'000); done += BlockEval::kBlock) {
        for (int i = 0; i < BlockEval::kBlock; ++i) {
          uint64_t r = random(), code = r & ((1u << row(d).bits) - 1), next = code + 1;
          // Half of the values are halfway between two neighbours, or just beside that.
          double middle = (load_float(d, &code) + load_float(d, &next)) / 2;
          double beside = std::nextafter(middle, r >> 62 ? 1e300 : -1e300);
          Scalar v = r >> 60 & 1 ? random_scalar(from, random)
                                 : scalar(from, r >> 61 & 1 ? middle : beside);
          write(graph.input<char>(0), i, v);
        }
        graph.run_reference();
        for (int i = 0; i < BlockEval::kBlock; ++i) {
          double v = read(from, graph.input<char>(0), i).f;
          uint64_t got =
              static_cast<uint64_t>(read(bits_type(row(d).bits), graph.result<char>(), i).i);
          wrong += std::isnan(v) ? !std::isnan(load_float(d, &got)) : got != bits_of(v);
        }
      }
      CHECK_MESSAGE(wrong == 0, type);
    }
  }
}

TEST_CASE("decompose: f64 patterns to f32 and back") {
  Arena arena;
  ArenaScope scope(arena);
  UOp decoded = decode_double(input(0, DType::u64));
  UOp encoded = encode_double(input(0, DType::f32));
  BlockEval exact(encoded), back(decode_double(encoded)), narrow(decoded);
  std::mt19937_64 random(3);
  size_t wrong = 0;
  for (size_t done = 0; done < test::scaled<size_t>(100'000); done += BlockEval::kBlock) {
    for (int i = 0; i < BlockEval::kBlock; ++i) {
      Scalar x = random_scalar(DType::f32, random);
      write(exact.input<char>(0), i, x);
      write(back.input<char>(0), i, x);
      Scalar v = random() & 1
                     ? random_scalar(DType::f64, random)
                     : scalar(DType::f64, random_scalar(DType::f32, random).f * (1 + 0x1p-24));
      std::memcpy(narrow.input<double>(0) + i, &v.f, 8);
    }
    for (BlockEval* e : {&exact, &back, &narrow}) e->run_reference();
    for (int i = 0; i < BlockEval::kBlock; ++i) {
      double x = exact.input<float>(0)[i];
      wrong += !std::isnan(x) && exact.result<uint64_t>()[i] != std::bit_cast<uint64_t>(x);
      wrong += !same_bits(read(DType::f32, back.result<char>(), i),
                          read(DType::f32, back.input<char>(0), i));
      double v = narrow.input<double>(0)[i];
      if (std::fabs(v) >= 0x1p-126 || std::fabs(v) < 0x1p-150 || std::isnan(v))
        wrong += !same_bits(read(DType::f32, narrow.result<char>(), i), scalar(DType::f32, v));
    }
  }
  CHECK(wrong == 0);
}

namespace {

// Ops whose results in a narrow float are those of ir/eval, bit for bit.
void check_carried(DType d, const Target& target) {
  struct Row {
    Op op;
    DType result;
    std::vector<DType> src;
  };
  const Row rows[] = {
      {Op::Add,     d,                      {d, d}                },
      {Op::Mul,     d,                      {d, d}                },
      {Op::Div,     d,                      {d, d}                },
      {Op::Max,     d,                      {d, d}                },
      {Op::Min,     d,                      {d, d}                },
      {Op::Neg,     d,                      {d}                   },
      {Op::Sqrt,    d,                      {d}                   },
      {Op::Trunc,   d,                      {d}                   },
      {Op::Lt,      DType::boolean,         {d, d}                },
      {Op::MulAdd,  d,                      {d, d, d}             },
      {Op::Where,   d,                      {DType::boolean, d, d}},
      {Op::Cast,    DType::i32,             {d}                   },
      {Op::Cast,    DType::f64,             {d}                   },
      {Op::Cast,    d,                      {DType::f64}          },
      {Op::Cast,    d,                      {DType::f32}          },
      {Op::Cast,    d,                      {DType::i64}          },
      {Op::Cast,    DType::bf16,            {d}                   },
      {Op::Cast,    d,                      {DType::boolean}      },
      {Op::Bitcast, bits_type(row(d).bits), {d}                   }
  };
  for (const Row& r : rows) {
    Arena arena;
    ArenaScope scope(arena);
    std::vector<UOp> src;
    for (DType s : r.src) src.push_back(input(static_cast<int>(src.size()), s));
    UOp place = make(Op::Index, r.result, {param(9, r.result, 1), index(0)});
    UOp store = make(Op::Store, DType::none, {place, make(r.op, r.result, src)});
    store = decompose(store, target);
    for (UOp n : toposort(store)) CHECK(target.has(n->dtype));
    UOp graph = store->src(1);
    BlockEval got(graph);
    std::mt19937_64 random(23);
    size_t wrong = 0;
    for (size_t done = 0; done < test::scaled<size_t>(5000); done += BlockEval::kBlock) {
      std::vector<std::vector<Scalar>> values(src.size());
      for (size_t s = 0; s < src.size(); ++s)
        for (int i = 0; i < BlockEval::kBlock; ++i) {
          values[s].push_back(random_scalar(r.src[s], random));
          write(got.input<char>(static_cast<int>(s)), i, values[s].back());
        }
      got.run_reference();
      for (int i = 0; i < BlockEval::kBlock; ++i) {
        Scalar in[3];
        for (size_t s = 0; s < src.size(); ++s) in[s] = values[s][static_cast<size_t>(i)];
        Scalar want = eval(r.op, r.result, {in, src.size()});
        Scalar have = read(r.result, got.result<char>(), i);
        if (r.op == Op::Bitcast && std::isnan(in[0].f)) continue;
        if (!same_bits(have, want) && wrong++ == 0)
          MESSAGE("got ", have.i, " ", have.f, " want ", want.i, " ", want.f, " of ", in[0].f, ", ",
                  in[1].f, ", ", in[2].f, " ", in[0].i);
      }
    }
    CHECK_MESSAGE(wrong + got.unsafe() == 0, op_name(r.op, r.result));
  }
}

}  // namespace

TEST_CASE("decompose: narrow floats the target lacks are computed in f32") {
  Target target;
  target.fma = true;
  for (DType d : narrow_floats) target.dtypes &= ~(1u << static_cast<int>(d));
  for (DType d : narrow_floats) check_carried(d, target);
}

TEST_CASE("decompose: a kernel of bf16 on a target that lacks it") {
  Arena arena;
  ArenaScope scope(arena);
  UOp body = parse(R"(%0 = Param bf16 [0 16 global 0]
%1 = Range index 16 [0 loop]
%2 = Index bf16 %0 %1
%3 = Param bf16 [1 16 global 0]
%4 = Index bf16 %3 %1
%5 = Load bf16 %4
%6 = Neg bf16 %5
%7 = Store void %2 %6
%8 = End void %7 %1
%9 = Sink void %8 ""
)");
  Target target;
  target.dtypes &= ~(1u << static_cast<int>(DType::bf16));
  std::string text = print(decompose(body, target));
  CHECK(text.find("bf16") == std::string::npos);
  CHECK(text.find("Param u16 [0 16 global 0]") != std::string::npos);
  CHECK(text.find("Neg f32") != std::string::npos);
}

namespace {

Target without_words() {
  Target target;
  target.fma = true;
  for (DType d : {DType::i64, DType::u64, DType::f64})
    target.dtypes &= ~(1u << static_cast<int>(d));
  return target;
}

// The two stores of a 64-bit result as one value of u64, for evaluation here.
UOp joined(UOp low, UOp high, DType dtype) {
  UOp wide = shift_left(cast(high, DType::u64), 32) | cast(low, DType::u64);
  return make(Op::Bitcast, dtype, {wide});
}

size_t word_mismatches(Op op, DType result, std::span<const DType> types, size_t count) {
  Arena arena;
  ArenaScope scope(arena);
  std::vector<UOp> src;
  for (DType d : types) src.push_back(input(static_cast<int>(src.size()), d));
  UOp place = make(Op::Index, result, {param(9, result, 1), index(0)});
  UOp store = make(Op::Store, DType::none, {place, make(op, result, src)});
  UOp sink =
      decompose(make(Op::Sink, DType::none, {store}, Arg::of(intern_arg({}))), without_words());
  for (UOp n : toposort(sink)) CHECK(without_words().has(n->dtype));
  UOp graph = sink->src(0)->src(1);
  if (sink->nsrc == 2) graph = joined(graph, sink->src(1)->src(1), result);
  // Words of wide inputs become inputs 16 + 2 * slot + word.
  std::vector<std::pair<UOp, UOp>> map;
  for (UOp n : toposort(graph))
    if (n->is(Op::Load) && is_int(types[static_cast<size_t>(n->src(0)->src(0)->ints(0))]) &&
        n->src(0)->src(0)->ints(1) == 2) {
      int slot = static_cast<int>(n->src(0)->src(0)->ints(0));
      map.emplace_back(n,
                       input(16 + 2 * slot + (n->src(0)->src(1)->is_const(1) ? 1 : 0), DType::u32));
    }
  graph = substitute(graph, map);
  BlockEval block(graph);
  std::mt19937_64 random(29);
  size_t wrong = 0;
  for (size_t done = 0; done < count; done += BlockEval::kBlock) {
    std::vector<std::vector<Scalar>> values(src.size());
    for (size_t s = 0; s < src.size(); ++s)
      for (int i = 0; i < BlockEval::kBlock; ++i) {
        Scalar v = random_scalar(types[s], random);
        values[s].push_back(v);
        const int slot = static_cast<int>(s);
        if (block.has_input(slot)) write(block.input<char>(slot), i, v);
        for (int w : {0, 1})
          if (block.has_input(16 + 2 * slot + w))
            block.input<uint32_t>(16 + 2 * slot + w)[i] =
                static_cast<uint32_t>(static_cast<uint64_t>(v.i) >> (32 * w));
      }
    block.run_reference();
    for (int i = 0; i < BlockEval::kBlock; ++i) {
      Scalar in[3];
      for (size_t s = 0; s < src.size(); ++s) in[s] = values[s][static_cast<size_t>(i)];
      Scalar want = eval(op, result, {in, src.size()});
      Scalar have = read(result, block.result<char>(), i);
      if (!same_bits(have, want) && wrong++ == 0)
        MESSAGE("got ", have.i, " ", have.f, " want ", want.i, " ", want.f, " of ", in[0].i, " ",
                in[0].f, ", ", in[1].i, ", ", in[2].i);
    }
  }
  return wrong + block.unsafe();
}

}  // namespace

TEST_CASE("decompose: 64-bit integers in words") {
  for (DType d : {DType::i64, DType::u64}) {
    for (Op op : {Op::Add, Op::Mul, Op::And, Op::Or, Op::Xor, Op::Max, Op::Min, Op::Shl, Op::Shr,
                  Op::IDiv, Op::IMod}) {
      DType types[] = {d, d};
      CHECK_MESSAGE(word_mismatches(op, d, types, test::scaled<size_t>(4000)) == 0, op_name(op, d));
    }
    for (Op op : {Op::Lt, Op::Eq}) {
      DType types[] = {d, d};
      CHECK_MESSAGE(word_mismatches(op, DType::boolean, types, test::scaled<size_t>(4000)) == 0, op_name(op, d));
    }
    DType one[] = {d}, three[] = {DType::boolean, d, d};
    CHECK_MESSAGE(word_mismatches(Op::Neg, d, one, 2000) == 0, op_name(Op::Neg, d));
    CHECK_MESSAGE(word_mismatches(Op::Where, d, three, 2000) == 0, op_name(Op::Where, d));
    for (DType other : {DType::boolean, DType::u8, DType::i16, DType::i32, DType::u32, DType::i64,
                        DType::u64, DType::f16, DType::f32}) {
      DType from[] = {other};
      CHECK_MESSAGE(word_mismatches(Op::Cast, d, from, test::scaled<size_t>(4000)) == 0,
                    (std::string(name(other)) + " to " + name(d)));
      CHECK_MESSAGE(word_mismatches(Op::Cast, other, one, test::scaled<size_t>(4000)) == 0,
                    (std::string(name(d)) + " to " + name(other)));
    }
  }
  DType keys[] = {DType::u64, DType::u64};
  CHECK(word_mismatches(Op::Threefry, DType::u64, keys, 2000) == 0);
}

namespace {

// out[i] = fold over j of a[i * columns + j], lowered for a target without 64-bit integers.
template <class T>
std::vector<T> fold_rows(Op op, DType dtype, const std::vector<T>& a, int64_t columns) {
  Arena arena;
  ArenaScope scope(arena);
  const int64_t rows = static_cast<int64_t>(a.size()) / columns;
  UOp i = range(0, index(rows), Role::Loop), j = range(1, index(columns), Role::Reduce);
  UOp from = param(1, dtype, static_cast<int64_t>(a.size())), to = param(0, dtype, rows);
  UOp value = make(Op::Index, dtype, {from, i * columns + j});
  UOp place = make(Op::Index, dtype, {to, i});
  UOp ranges[] = {j};
  UOp store = make(Op::Store, DType::none, {place, reduce_over(op, value, ranges)});
  UOp end = make(Op::End, DType::none, {store, i});
  Program program =
      lower(make(Op::Sink, DType::none, {end}, Arg::of(intern_arg({}))), without_words());
  for (UOp n : toposort(program.linear)) CHECK(without_words().has(n->dtype));
  std::vector<T> out(static_cast<size_t>(rows)), in = a;
  void* buffers[] = {out.data(), in.data()};
  InterpProgram(program.linear, "fold", {}).run(buffers, {}, 0, 1);
  return out;
}

}  // namespace

TEST_CASE("decompose: reduces of 64-bit integers in words") {
  constexpr int64_t columns = 37;
  std::mt19937_64 random(31);
  std::vector<int64_t> a;
  for (int i = 0; i < 5 * columns; ++i)
    a.push_back(i < columns ? -1 - (i == 5) : random_scalar(DType::i64, random).i);
  for (DType d : {DType::i64, DType::u64})
    for (Op op : {Op::Add, Op::Mul, Op::Max, Op::Min, Op::And, Op::Or, Op::Xor}) {
      std::vector<int64_t> want;
      for (size_t row = 0; row < 5; ++row) {
        Scalar folded = scalar(d, a[row * columns]);
        for (size_t j = 1; j < columns; ++j) {
          Scalar src[] = {folded, scalar(d, a[row * columns + j])};
          folded = eval(op, d, src);
        }
        want.push_back(folded.i);
      }
      CHECK_MESSAGE(fold_rows(op, d, a, columns) == want, op_name(op, d));
    }
}

// The words below the largest have loops of their own, which end where the others do.
TEST_CASE("decompose: the largest 64-bit integer over loops that end where others say") {
  Arena arena;
  ArenaScope scope(arena);
  UOp t = range(0, index(4), Role::Reduce),
      o = range(1, where(lt(t, index(2)), index(3), index(0)), Role::Reduce);
  UOp inner_first[] = {o, t};
  UOp read = make(Op::Index, DType::i64, {param(1, DType::i64, 12), t * 3 + o});
  UOp place = make(Op::Index, DType::i64, {param(0, DType::i64, 1), index(0)});
  UOp value = reduce_over(Op::Max, read, inner_first);
  UOp end = make(Op::End, DType::none, {make(Op::Store, DType::none, {place, value})});
  UOp body = make(Op::Sink, DType::none, {end}, Arg::of(intern_arg({})));
  Program program = lower(body, without_words());
  verify(program.linear, Stage::Program, "lower");
  std::vector<int64_t> out(1), in(12);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<int64_t>(i * 7 % 12) << 31;
  void* buffers[] = {out.data(), in.data()};
  InterpProgram(program.linear, "fold", {}).run(buffers, {}, 0, 1);
  CHECK(out[0] == *std::max_element(in.begin(), in.begin() + 6));
}

TEST_CASE("decompose: reduces of bools") {
  const std::vector<uint8_t> a{1, 1, 1, 0, 1, 0, 0, 0, 0};
  for (Op op : {Op::Add, Op::Max, Op::Or})
    CHECK(fold_rows(op, DType::boolean, a, 3) == std::vector<uint8_t>{1, 1, 0});
  for (Op op : {Op::Mul, Op::Min, Op::And})
    CHECK(fold_rows(op, DType::boolean, a, 3) == std::vector<uint8_t>{1, 0, 0});
  CHECK(fold_rows(Op::Xor, DType::boolean, a, 3) == std::vector<uint8_t>{1, 1, 0});
}

TEST_CASE("decompose: f64 the target lacks is computed in f32") {
  const std::vector<double> a{1.5, -2.25, 1e30, -1e30, 0x1p-130, INFINITY};
  CHECK(fold_rows(Op::Add, DType::f64, a, 2) == std::vector<double>{-0.75, 0, INFINITY});
  CHECK(fold_rows(Op::Min, DType::f64, a, 2) ==
        std::vector<double>{-2.25, static_cast<float>(-1e30), 0x1p-130});
}

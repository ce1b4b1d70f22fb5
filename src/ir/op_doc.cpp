#include "ir/op_doc.h"

#include "ir/dtype.h"
#include "ir/ops.h"

namespace mote {

namespace {

constexpr const char* intro =
    R"(# The IR

Made from `src/ir/ops.def` and `src/ir/dtype.cpp` by the test "ir.md: write"; do not edit.

A program is a graph of nodes at every level, from what the user wrote down to a kernel's last
instruction. A node is an op, a dtype, its sources and an argument; equal nodes are the same node.
`src/ir/node.h` says what is derived from those, `src/ir/print.h` how a graph reads as text,
`src/ir/spec.h` which graphs are legal between which stages, `src/ir/eval.h` what the elementwise
ops mean on scalars.

)";

struct TraitName {
  Trait trait;
  const char* name;
  const char* meaning;
};
constexpr TraitName trait_names[] = {
    {Leaf,     "leaf",        "nothing to compute below it"                                    },
    {Movement, "movement",    "moves elements of an array, computes nothing"                   },
    {Alu,      "elementwise", "one scalar per position from one of each source"                },
    {Commutes, "commutes",    "its two sources may be exchanged"                               },
    {Assoc,    "associates",  "(a . b) . c = a . (b . c), of integers exactly"                 },
    {Compares, "compares",    "gives a bool"                                                   },
    {Float,    "floats",      "only of floats"                                                 },
    {Integer,  "integers",    "only of integers and bools"                                     },
    {Curve,    "curve",       "a transcendental function, decomposed where the target lacks it"},
    {Folds,    "folds",       "many elements to one"                                           },
    {Memory,   "memory",      "a place, or access to one"                                      },
    {Effect,   "effect",      "something happens, or must have happened"                       },
    {Moves,    "moves",       "the same value, elsewhere or otherwise kept"                    },
};

std::string traits_of(Op op) {
  std::string out;
  for (const TraitName& t : trait_names)
    if (has(op, t.trait)) out += (out.empty() ? "" : ", ") + std::string(t.name);
  return out;
}

const char* argument_of(Op op) {
  switch (row(op).arg) {
    case ArgKind::Nil: return "";
    case ArgKind::Int: return "number";
    case ArgKind::Value: return "value";
    case ArgKind::Object: return "list";
    case ArgKind::Handle: return "handle";
  }
  return "";
}

std::string limits(DType d) {
  if (d == DType::u64) return "0 ... 2^64-1";
  if (is_float(d)) return "";
  if (row(d).bits == 64) return "-(2^63) ... 2^63-1";
  return std::to_string(row(d).lo) + " ... " + std::to_string(row(d).hi);
}

}  // namespace

std::string op_doc() {
  std::string out = intro;
  out += "## Ops\n\n`any` sources: as many as the meaning says.\n\n";
  out += "| op | sources | argument | traits | meaning |\n|---|---|---|---|---|\n";
  for (int i = 0; i < kOps; ++i) {
    const auto op = static_cast<Op>(i);
    const OpRow& r = row(op);
    out += text("| ", r.name, " | ", r.arity < 0 ? "any" : std::to_string(r.arity), " | ",
                argument_of(op), " | ", traits_of(op), " | ", r.meaning, " |\n");
  }
  out += "\n## Traits\n\n| trait | means |\n|---|---|\n";
  for (const TraitName& t : trait_names) out += text("| ", t.name, " | ", t.meaning, " |\n");
  out += "\n## Dtypes\n\n| dtype | bytes | values |\n|---|---|---|\n";
  for (int i = 1; i < kDTypes; ++i) {
    const auto d = static_cast<DType>(i);
    out += text("| ", name(d), " | ", size_of(d), " | ", limits(d), " |\n");
  }
  out += "\n`index` is the compiler's exact integer of sizes and positions; no memory holds it.\n";
  return out;
}

}  // namespace mote

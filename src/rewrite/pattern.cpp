#include "rewrite/pattern.h"

#include "base/error.h"

namespace mote {

namespace {

const char* const variable_names[kVariables] = {"x",  "y",  "z",  "w",  "i", "j", "k",
                                                "l",  "n",  "m",  "u",  "v", "g", "h",
                                                "c0", "c1", "c2", "c3", "a", "b"};

const char* infix(Op op) {
  switch (op) {
    case Op::Add: return " + ";
    case Op::Mul: return " * ";
    case Op::FloorDiv: return " / ";
    case Op::FloorMod: return " % ";
    case Op::And: return " & ";
    case Op::Or: return " | ";
    case Op::Xor: return " ^ ";
    case Op::Lt: return " < ";
    case Op::Eq: return " == ";
    default: return nullptr;
  }
}

std::string number(double v) {
  if (v == static_cast<double>(static_cast<int64_t>(v))) return text(static_cast<int64_t>(v));
  return text(v);
}

std::string print(const Pat& p, int& at, bool nested) {
  const PatNode& n = p[at++];
  switch (n.kind) {
    case PatNode::Variable:
    case PatNode::Constant: return variable_names[n.var];
    case PatNode::Number: return number(n.value);
    case PatNode::Fold: return "fold(" + print(p, at, false) + ")";
    case PatNode::Lo: return "lo(" + print(p, at, false) + ")";
    case PatNode::Hi: return "hi(" + print(p, at, false) + ")";
    case PatNode::Node: break;
  }
  std::string out;
  if (const char* sign = infix(n.op)) {
    out = print(p, at, true) + sign;
    out += print(p, at, true);
    return nested ? "(" + out + ")" : out;
  }
  out = name(n.op);
  out += "(";
  for (int s = 0; s < n.nsrc; ++s) {
    if (s) out += ", ";
    out += print(p, at, false);
  }
  return out + (n.more ? ", ...)" : ")");
}

}  // namespace

std::string text_of(const Pat& p) {
  int at = 0;
  return p.empty() ? "" : print(p, at, false);
}

std::string text_of(const Rule& r) {
  std::string out = text(r.file, ":", r.line, ": ", text_of(r.left), " -> ");
  out += r.build ? "..." : text_of(r.right);
  if (!r.guard.empty()) out += " when " + text_of(r.guard);
  return out;
}

}  // namespace mote

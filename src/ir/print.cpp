#include "ir/print.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <unordered_map>

#include "base/number.h"
#include "ir/graph.h"
#include "ir/storage.h"

namespace mote {

namespace {

// What the first entries of an op's list are; the rest are integers.
//   i integer   o op   r role   s memory space
struct ListForm {
  Op op;
  const char* fields;
};
constexpr ListForm list_forms[] = {
    {Op::Param,  "iisi"},
    {Op::Var,    "iiii"},
    {Op::Range,  "ir"  },
    {Op::Reduce, "o"   },
    {Op::Stage,  "si"  },
    {Op::Reg,    "i"   },
};
constexpr const char* space_names[] = {"global", "local", "register", "shared"};

const char* list_fields(Op op) {
  for (const ListForm& f : list_forms)
    if (f.op == op) return f.fields;
  return "";
}

bool takes_list(Op op) { return row(op).arg == ArgKind::Object || row(op).arg == ArgKind::Int; }
bool has_sizes(Op op) { return has(op, Movement) || op == Op::Iota; }
// The list of an effect or a choice is written only when it says something.
bool may_omit_list(Op op) { return has(op, Effect) || op == Op::Where; }

bool is_inline(const Node* n) { return n->op == Op::Const || n->op == Op::Invalid; }

void append_float(std::string& out, double v) {
  const uint64_t bits = std::bit_cast<uint64_t>(v);
  if (std::isnan(v) && bits != std::bit_cast<uint64_t>(std::nan("")))
    append(out, text("nan(", hex_text(bits, 16), ")"));
  else
    out += shortest_text(v);
}

void append_literal(std::string& out, const Node* c) {
  if (c->op == Op::Invalid) {
    out += "Invalid";
  } else if (c->dtype == DType::boolean) {
    out += c->arg.i ? "true" : "false";
    return;
  } else if (is_float(c->dtype)) {
    append_float(out, c->arg.f);
  } else if (c->dtype == DType::u64) {
    append(out, static_cast<uint64_t>(c->arg.i));
  } else {
    append(out, c->arg.i);
  }
  if (c->dtype != DType::index) append(out, ':'), append(out, c->dtype);
}

void append_quoted(std::string& out, std::string_view s) {
  out += '"';
  for (char c : s) {
    if (c == '\n') {
      out += "\\n";
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  out += '"';
}

class Printer {
 public:
  std::string run(UOp root) {
    for (UOp u : toposort(root)) {
      if (is_inline(u.get()) && u != root) continue;
      number_.emplace(u.get(), static_cast<int>(number_.size()));
      line(u.get());
    }
    return std::move(out_);
  }

 private:
  void line(const Node* n) {
    append(out_, '%');
    append(out_, number_[n]);
    out_ += " = ";
    if (is_inline(n)) {
      append_literal(out_, n);
    } else {
      op(n);
    }
    if (n->shape && n->shape->rank() > 0 && n->op != Op::Param && n->op != Op::Buffer)
      append(out_, "  # "), append(out_, *n->shape);
    out_ += '\n';
  }

  void op(const Node* n) {
    append(out_, name(n->op));
    append(out_, ' ');
    append(out_, n->dtype);
    const uint32_t listed = symbolic_entries(n);
    for (uint32_t i = 0; i + listed < n->nsrc; ++i) append(out_, ' '), source(n->sources[i]);
    if (row(n->op).arg == ArgKind::Int && (n->arg.i || !may_omit_list(n->op)))
      append(out_, text(" [", n->arg.i, "]"));
    if (row(n->op).arg == ArgKind::Object) list(n, n->nsrc - listed);
    if (row(n->op).arg == ArgKind::Handle)
      append(out_, text(" #", n->arg.storage->id, " of ", n->arg.storage->count));
  }

  // How many of the last sources are sizes named in the list.
  static uint32_t symbolic_entries(const Node* n) {
    if (!has_sizes(n->op)) return 0;
    return static_cast<uint32_t>(std::ranges::count(n->ints(), kSymbolic));
  }

  void source(const Node* s) {
    if (is_inline(s)) return append_literal(out_, s);
    append(out_, '%');
    append(out_, number_[s]);
  }

  void list(const Node* n, uint32_t extra) {
    const char* fields = list_fields(n->op);
    if (!n->ints().empty() || !may_omit_list(n->op)) out_ += " [";
    for (size_t i = 0; i < n->ints().size(); ++i) {
      if (i) out_ += ' ';
      if (extra < n->nsrc && n->ints(i) == kSymbolic) {
        if (is_inline(n->sources[extra])) out_ += '?';  // a literal, yet a source
        source(n->sources[extra++]);
      } else {
        entry(*fields ? *fields : 'i', n->ints(i));
      }
      if (*fields) ++fields;
    }
    if (!n->ints().empty() || !may_omit_list(n->op)) out_ += ']';
    if (!n->arg.object->str.empty()) append(out_, ' '), append_quoted(out_, n->arg.object->str);
  }

  void entry(char field, int64_t v) {
    if (field == 'o') return append(out_, name(static_cast<Op>(v)));
    if (field == 'r') return append(out_, name(static_cast<Role>(v)));
    if (field == 's') return append(out_, space_names[v]);
    append(out_, v);
  }

  std::unordered_map<const Node*, int> number_;
  std::string out_;
};

class Parser {
 public:
  UOp run(std::string_view text) {
    UOp root;
    while (!text.empty()) {
      ++line_;
      const size_t end = text.find('\n');
      rest_ = text.substr(0, end);
      text = end == text.npos ? std::string_view{} : text.substr(end + 1);
      if (!at_end()) root = definition();
    }
    require(static_cast<bool>(root), "no node");
    return root;
  }

 private:
  template <class... A>
  void require(bool ok, const A&... parts) const {
    check(ok, "[parse] line ", line_, ": ", parts...);
  }

  bool at_end() {
    while (!rest_.empty() && std::strchr(" \t\r", rest_[0])) rest_.remove_prefix(1);
    return rest_.empty() || rest_[0] == '#';
  }
  bool accept(char c) {
    if (at_end() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string_view word() {
    require(!at_end(), "the line ends too early");
    const size_t n = std::min(rest_.find_first_of(" \t\r[]\"="), rest_.size());
    require(n > 0, "'", rest_[0], "' is not expected here");
    std::string_view w = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return w;
  }

  UOp definition() {
    std::string_view w = word();
    int64_t id = 0;
    require(w[0] == '%' && read_number(w.substr(1), id), "'", w, "' is not a %number");
    require(accept('='), "'=' is missing");
    w = word();
    Op op;
    UOp node = parse_op(w, &op) && !(op == Op::Invalid && at_end()) ? operation(op) : literal(w);
    require(at_end(), "'", rest_, "' after the end of the node");
    require(nodes_.emplace(id, node).second, "%", id, " is defined twice");
    return node;
  }

  UOp operation(Op op) {
    require(op != Op::Buffer, "a Buffer cannot be read from text");
    DType dtype = DType::none;
    std::string_view w = word();
    require(parse_dtype(w, &dtype), "'", w, "' is not a dtype");
    std::vector<Node*> src;
    while (!at_end() && rest_[0] != '[' && rest_[0] != '"') src.push_back(source(word()).get());
    Arg arg = takes_list(op) ? list(op, &src) : Arg{};
    const int arity = row(op).arity;
    require(arity < 0 || static_cast<size_t>(arity) == src.size(), name(op), " takes ", arity,
            " sources, got ", src.size());
    require_derivable(op, src, arg);
    return arena().make_raw({op, dtype, src, arg});
  }

  static bool fits(int64_t axis, size_t rank) {
    return axis >= 0 && static_cast<size_t>(axis) < rank;
  }

  // What the derived attributes of a node rely on.
  void require_derivable(Op op, const std::vector<Node*>& src, Arg arg) const {
    const bool may_be_leaf = OpSet{Op::Iota, Op::Reg}.has(op) || has(op, Effect);
    require(!src.empty() || row(op).arity == 0 || may_be_leaf, name(op), " needs a source");
    if (op == Op::Iota) require(arg.object->ints.size() == 1, "Iota takes one size");
    const bool axes = op == Op::Permute || op == Op::Flip || (op == Op::Reduce && src.size() == 1);
    if (!axes && !has(op, Movement)) return;
    require(src[0]->shape, name(op), " of an effect");
    const size_t rank = src[0]->shape->dims.size(), n = arg.object->ints.size();
    if (op == Op::Permute) require(n == rank, "Permute takes ", rank, " axes");
    if (op == Op::Window)
      require(n == 4 && fits(arg.object->ints[0], rank) && arg.object->ints[2] > 0,
              "Window takes an axis, a size, a step and a dilation");
    if (op == Op::Pad || op == Op::Shrink)
      require(n == 2 * rank, name(op), " takes ", 2 * rank, " numbers");
    if (axes)
      for (size_t i = op == Op::Reduce; i < n; ++i)
        require(fits(arg.object->ints[i], rank), name(op), " has no axis ", arg.object->ints[i]);
  }

  UOp source(std::string_view w) {
    if (w[0] != '%') return literal(w);
    int64_t id = 0;
    require(read_number(w.substr(1), id), "'", w, "' is not a %number");
    auto it = nodes_.find(id);
    require(it != nodes_.end(), "%", id, " is not defined above");
    return it->second;
  }

  UOp literal(std::string_view w) {
    if (w == "true" || w == "false") return made(DType::boolean, Arg::of(int64_t{w == "true"}));
    const size_t colon = w.rfind(':');
    DType dtype = DType::index;
    require(colon == w.npos || parse_dtype(w.substr(colon + 1), &dtype), "'", w,
            "' has no known dtype");
    std::string_view value = w.substr(0, colon);
    if (value == "Invalid") return arena().make_raw({Op::Invalid, dtype, {}, {}});
    Arg arg;
    bool ok;
    if (is_float(dtype)) {
      ok = nan_bits(value, &arg.f) || read_number(value, arg.f);
    } else if (dtype == DType::u64) {
      uint64_t u = 0;
      ok = read_number(value, u);
      arg.i = static_cast<int64_t>(u);
    } else {
      ok = read_number(value, arg.i) && wrap_to(dtype, arg.i) == arg.i;
    }
    require(ok, "'", w, "' is neither an op nor a literal");
    return made(dtype, arg);
  }
  static UOp made(DType dtype, Arg arg) { return arena().make_raw({Op::Const, dtype, {}, arg}); }

  bool nan_bits(std::string_view w, double* v) const {
    if (!w.starts_with("nan(") || !w.ends_with(')')) return false;
    uint64_t bits = 0;
    w = w.substr(4, w.size() - 5);
    auto [end, error] = std::from_chars(w.data(), w.data() + w.size(), bits, 16);
    *v = std::bit_cast<double>(bits);
    return error == std::errc{} && end == w.data() + w.size() && std::isnan(*v);
  }

  Arg list(Op op, std::vector<Node*>* src) {
    const char* fields = list_fields(op);
    std::vector<int64_t> ints;
    const bool listed = accept('[');
    require(listed || may_omit_list(op), name(op), " needs a [list]");
    while (listed && !accept(']')) {
      std::string_view w = word();
      if (has_sizes(op) && (w[0] == '%' || w[0] == '?')) {
        src->push_back(source(w[0] == '?' ? w.substr(1) : w).get());
        ints.push_back(kSymbolic);
      } else {
        ints.push_back(entry(*fields ? *fields : 'i', w));
      }
      if (*fields) ++fields;
    }
    require(!*fields, "the list of ", name(op), " is too short");
    if (row(op).arg == ArgKind::Int) {
      require(ints.size() == listed, name(op), " takes one number");
      return listed ? Arg::of(ints[0]) : Arg{};
    }
    return Arg::of(intern_arg(ints, accept('"') ? quoted() : std::string()));
  }

  int64_t entry(char field, std::string_view w) const {
    int64_t v = 0;
    Role role{};
    if (field == 'o')
      require(parse_name(w, op_rows, &OpRow::name, &v), "'", w, "' is not an op");
    else if (field == 'r')
      require(parse_role(w, &role), "'", w, "' is not a role");
    else if (field == 's')
      require(parse_name(w, space_names, std::identity(), &v), "'", w, "' is not a memory space");
    else
      require(read_number(w, v), "'", w, "' is not a number");
    return field == 'r' ? static_cast<int64_t>(role) : v;
  }

  std::string quoted() {
    std::string out;
    while (!rest_.empty() && rest_[0] != '"') {
      char c = rest_[0];
      rest_.remove_prefix(1);
      if (c == '\\' && !rest_.empty()) {
        c = rest_[0] == 'n' ? '\n' : rest_[0];
        rest_.remove_prefix(1);
      }
      out += c;
    }
    require(!rest_.empty(), "the string has no end");
    rest_.remove_prefix(1);
    return out;
  }

  std::string_view rest_;  // of the current line
  int line_ = 0;
  std::unordered_map<int64_t, UOp> nodes_;
};

}  // namespace

std::string print(UOp root) { return Printer().run(root); }

UOp parse(std::string_view text) { return Parser().run(text); }

}  // namespace mote

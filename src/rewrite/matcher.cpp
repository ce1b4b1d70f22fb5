#include "rewrite/matcher.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "ir/build.h"
#include "ir/eval.h"

namespace mote {

namespace {

int class_of_number(double v) {
  if (v == 0 && !std::signbit(v)) return kOps;
  if (v == 1) return kOps + 1;
  if (v == -1) return kOps + 2;
  return kOps + 3;
}

// Whether a source of this class can match the pattern node.
bool admits(const PatNode& p, int cls) {
  bool present = cls != static_cast<int>(Op::Const);
  switch (p.kind) {
    case PatNode::Variable: return present;
    case PatNode::Constant: return cls >= kOps;
    case PatNode::Number: return cls == class_of_number(p.value);
    default: return cls == static_cast<int>(p.op);
  }
}

bool same_pattern(const Pat& p, int a, int b) {
  int ea = p.end(a), eb = p.end(b);
  if (ea - a != eb - b) return false;
  for (; a < ea; ++a, ++b)
    if (p[a].kind != p[b].kind || p[a].op != p[b].op || p[a].var != p[b].var ||
        p[a].value != p[b].value)
      return false;
  return true;
}

bool constant_like(const PatNode& n) {
  return n.kind == PatNode::Constant || n.kind == PatNode::Number;
}

Pat exchanged(const Pat& p, int at) {
  int a = at + 1, b = p.end(a), e = p.end(b);
  Pat r = p;
  std::rotate(r.node.begin() + a, r.node.begin() + b, r.node.begin() + e);
  return r;
}

}  // namespace

int class_of(const Node* n) {
  if (n->op != Op::Const) return static_cast<int>(n->op);
  if (is_float(n->dtype)) return class_of_number(n->arg.f);
  return n->arg.i == 0 ? kOps : n->arg.i == 1 ? kOps + 1 : n->arg.i == -1 ? kOps + 2 : kOps + 3;
}

std::vector<Pat> commuted(const Pat& left) {
  std::vector<Pat> forms{left};
  int exchanges = 0;
  // From the last node to the first, so that an exchange does not move the ones still to do.
  for (int at = left.size - 1; at >= 0; --at) {
    const PatNode& n = left[at];
    if (n.kind != PatNode::Node || !has(n.op, Commutes) || n.nsrc != 2) continue;
    int a = at + 1, b = left.end(a);
    // The constructor keeps constants right.
    if (constant_like(left[b]) || same_pattern(left, a, b)) continue;
    ensure(++exchanges <= 3, "more than 3 commuting nodes in ", text_of(left));
    for (size_t f = 0, count = forms.size(); f < count; ++f)
      forms.push_back(exchanged(forms[f], at));
  }
  return forms;
}

std::array<DTypes, kPatNodes> infer_dtypes(const Pat& p) {
  std::array<DTypes, kPatNodes> set;
  for (int at = 0; at < p.size; ++at) set[static_cast<size_t>(at)] = p[at].dtypes;
  auto agree = [&](int a, int b) {
    auto &sa = set[static_cast<size_t>(a)], &sb = set[static_cast<size_t>(b)];
    bool changed = sa != sb;
    sa = sb = sa & sb;
    return changed;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (int at = 0; at < p.size; ++at) {
      if (p[at].kind == PatNode::Variable || p[at].kind == PatNode::Constant)
        for (int b = 0; b < at; ++b)
          if (p[b].kind == p[at].kind && p[b].var == p[at].var) changed |= agree(at, b);
      if (p[at].kind != PatNode::Node || !has(p[at].op, Alu) || p[at].nsrc == 0) continue;
      Op op = p[at].op;
      if (op == Op::Cast || op == Op::Bitcast) continue;
      int first = at + 1, second = p[at].nsrc > 1 ? p.end(first) : first;
      if (op == Op::Where) {
        set[static_cast<size_t>(first)] &= kBoolType;
        changed |= agree(at, second);
        changed |= agree(second, p.end(second));
        continue;
      }
      if (op == Op::FloorDiv || op == Op::FloorMod) set[static_cast<size_t>(at)] &= kIndexType;
      if (has(op, OfU64)) set[static_cast<size_t>(at)] &= dtypes({DType::u64});
      if (has(op, Float)) set[static_cast<size_t>(at)] &= kFloatTypes;
      if (has(op, Integer)) set[static_cast<size_t>(at)] &= ~kFloatTypes;
      changed |= agree(first, second);
      if (!has(op, Compares)) changed |= agree(at, first);
    }
  }
  return set;
}

Form::Form(const Rule& r, const Pat& order) : rule(&r), left(order) {
  const auto types = infer_dtypes(order);
  for (int at = 0; at < left.size; ++at) {
    left.node[static_cast<size_t>(at)].dtypes = types[static_cast<size_t>(at)];
    for (int s = 0, below = at + 1; s < left[at].nsrc; ++s, below = left.end(below)) {
      user[static_cast<size_t>(below)] = static_cast<uint8_t>(at);
      source[static_cast<size_t>(below)] = static_cast<uint8_t>(s);
    }
  }
}

Matcher::Matcher(const RuleSet& set) : pure_(set.kind() == RuleSet::Pure) {
  OpSet ops;
  for (const Rule* r : set.rules()) {
    ensure(r->left[0].kind == PatNode::Node, "a rule's left side must be a node: ", text_of(*r));
    std::vector<Pat> orders = commuted(r->left);
    // A lambda on two bare variables of one kind sees the same pair in either order.
    bool symmetric = r->build && r->left.size == 3 && r->left[1].kind == r->left[2].kind &&
                     r->left[1].dtypes == r->left[2].dtypes;
    if (symmetric) orders.resize(1);
    for (const Pat& left : orders) forms_.emplace_back(*r, left);
    ops.add(r->left[0].op);
  }
  for (int op = 0; op < kOps; ++op)
    if (ops.has(static_cast<Op>(op))) index(static_cast<Op>(op));
}

void Matcher::index(Op op) {
  auto owned = std::make_unique<Index>();
  Index& ix = *owned;
  std::vector<uint32_t> mine;
  for (uint32_t f = 0; f < forms_.size(); ++f)
    if (forms_[f].left[0].op == op) mine.push_back(f);
  auto source = [&](uint32_t f, int pos) {  // the pattern node of a source, or -1
    const Pat& p = forms_[f].left;
    if (pos >= p[0].nsrc) return -1;
    int at = 1;
    for (; pos > 0; --pos) at = p.end(at);
    return at;
  };
  auto accepts = [&](uint32_t f, int pos, int cls) {
    int at = source(f, pos);
    if (at >= 0) return admits(forms_[f].left[at], cls);
    return forms_[f].left[0].more || cls == static_cast<int>(Op::Const);
  };
  // Classes that every rule treats alike share a group: the same rules admit them.
  using Bits = std::vector<uint64_t>;  // by place in `mine`
  std::vector<Bits> groups[3];
  for (int pos = 0; pos < 3; ++pos) {
    for (int cls = 0; cls < kClasses; ++cls) {
      Bits key(mine.size() / 64 + 1);
      for (size_t k = 0; k < mine.size(); ++k)
        key[k / 64] |= uint64_t{accepts(mine[k], pos, cls)} << k % 64;
      auto it = std::ranges::find(groups[pos], key);
      ix.group[pos][cls] = static_cast<uint8_t>(it - groups[pos].begin());
      if (it == groups[pos].end()) groups[pos].push_back(std::move(key));
    }
    ix.groups[pos] = static_cast<int>(groups[pos].size());
  }
  std::map<Bits, Cell> shared;
  for (const Bits& a : groups[0])
    for (const Bits& b : groups[1])
      for (const Bits& c : groups[2]) {
        Bits all(a.size());
        for (size_t w = 0; w < all.size(); ++w) all[w] = a[w] & b[w] & c[w];
        auto [it, fresh] = shared.try_emplace(std::move(all));
        if (fresh) {
          it->second.begin = static_cast<uint32_t>(candidates_.size());
          for (size_t k = 0; k < mine.size(); ++k)
            if (it->first[k / 64] >> k % 64 & 1) candidates_.push_back(mine[k]);
          it->second.end = static_cast<uint32_t>(candidates_.size());
        }
        ix.cells.push_back(it->second);
      }
  roots_[static_cast<int>(op)] = std::move(owned);
}

static bool match(const Form& form, Node* root, Match& m) {
  Node* nodes[kPatNodes];
  uint32_t bound = 0;
  for (size_t at = 0; at < form.left.size; ++at) {
    const PatNode& p = form.left.node[at];
    Node* n = nodes[at] = at ? nodes[form.user[at]]->sources[form.source[at]] : root;
    if (!(p.dtypes >> static_cast<int>(n->dtype) & 1)) return false;
    switch (p.kind) {
      case PatNode::Constant:
        if (n->op != Op::Const) return false;
        [[fallthrough]];
      case PatNode::Variable:
        if ((bound >> p.var & 1) && m.bound[p.var].get() != n) return false;
        m.bound[p.var] = n;
        bound |= 1u << p.var;
        break;
      case PatNode::Number:
        if (!is_const(n, p.value)) return false;
        break;
      default:
        if (n->op != p.op || n->nsrc < p.nsrc || (n->nsrc > p.nsrc && !p.more)) return false;
    }
  }
  return true;
}

Node* Matcher::try_form(const Form& form, Node* node, Match& m) const {
  const Rule& rule = *form.rule;
  if (!match(form, node, m) || (!rule.guard.empty() && !guard_holds(rule, m))) return nullptr;
  Node* r = rule.build ? rule.build(m).get() : build_right(rule, m);
  if (!r || r == node) return nullptr;
  // A pure rule speaks of elements; it must not turn a tensor into a scalar.
  if (pure_ && r->shape != node->shape) return nullptr;
  return r;
}

constinit thread_local RewriteCounts thread_counts;
RewriteCounts rewrite_counts() { return thread_counts; }

Node* Matcher::apply(Node* node, void* context, const Rule** fired) const {
  const Index* ix = roots_[static_cast<int>(node->op)].get();
  if (!ix) return nullptr;
  size_t cell = 0;
  for (uint32_t pos = 0; pos < 3; ++pos) {
    int cls = pos < node->nsrc ? class_of(node->sources[pos]) : static_cast<int>(Op::Const);
    cell = cell * static_cast<size_t>(ix->groups[pos]) + ix->group[pos][cls];
  }
  Match m;
  m.root = node;
  m.context = context;
  const Cell& rules = ix->cells[cell];
  for (uint32_t at = rules.begin; at < rules.end; ++at) {
    const Form& form = forms_[candidates_[at]];
    if (Node* r = try_form(form, node, m)) {
      thread_counts.attempts += at + 1 - rules.begin;
      *fired = form.rule;
      return r;
    }
  }
  thread_counts.attempts += rules.end - rules.begin;
  return nullptr;
}

Node* Matcher::apply_form(int form, Node* node, void* context) const {
  Match m;
  m.root = node;
  m.context = context;
  return try_form(forms_[static_cast<size_t>(form)], node, m);
}

// ---- Rule sets

RuleSet::RuleSet(const char* name, Kind kind, std::initializer_list<std::span<const Rule>> tables)
    : name_(name), kind_(kind), stamp_(0), rules_(new std::vector<const Rule*>) {
  static std::atomic<uint32_t> stamped{0};
  if (kind == Pure) {
    uint32_t bit = stamped++;
    if (bit < 32) stamp_ = 1u << bit;
  }
  for (std::span<const Rule> table : tables)
    for (const Rule& r : table) rules_->push_back(&r);
}

const Matcher& RuleSet::matcher() const {
  if (const Matcher* m = matcher_.load(std::memory_order_acquire)) return *m;
  static std::mutex lock;
  std::lock_guard guard(lock);
  if (!matcher_.load()) matcher_.store(new Matcher(*this), std::memory_order_release);
  return *matcher_.load();
}

}  // namespace mote

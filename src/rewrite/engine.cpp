// The one rewriter. For each node: rewrite the sources, rebuild, apply a rule, continue on what it
// gave. Results are kept in a column indexed by node id; a column belongs to one running call, so
// calls may nest.
#include <array>

#include "base/error.h"
#include "ir/build.h"
#include "ir/memo.h"
#include "ir/print.h"
#include "rewrite/matcher.h"

namespace mote {

namespace {

// In a Memo: the node's result is being made.
Node* in_progress() { return reinterpret_cast<Node*>(1); }

// A node on its way: the rewriter's explicit stack.
struct Frame {
  Node* key;        // whose result this is
  Node* now;        // what it has become
  uint32_t source;  // next source of `now` to visit
};

struct Scratch {
  Memo<Node*> memo;
  std::vector<Frame> stack;
  std::vector<Node*> sources;
  void clear() {
    memo.clear();
    stack.clear();
  }
};

class Rewriter {
 public:
  Rewriter(const RuleSet& set, void* context)
      : set_(set),
        matcher_(set.matcher()),
        context_(context),
        memo_((*lease_).memo),
        stack_((*lease_).stack),
        sources_((*lease_).sources),
        stamp_(set.stamp()),
        first_new_(arena().size()) {}

  Node* run(Node* root) {
    push(root);
    while (!stack_.empty()) step();
    return memo_[root];
  }

 private:
  void push(Node* n) {
    ++thread_counts.visits;
    if (n->id < first_new_) ++originals_;
    memo_[n] = in_progress();
    stack_.push_back({n, n, 0});
  }

  // Moves the top frame on; `stack_` may grow, so frames are looked up again.
  void step() {
    Frame& f = stack_.back();
    if (stamp_ && (f.now->stamps & stamp_)) return finish(f.now);
    while (f.source < f.now->nsrc) {
      Node* s = f.now->sources[f.source];
      if (stamp_ && (s->stamps & stamp_)) {
        ++f.source;
        continue;
      }
      Node* r = memo_[s];
      if (r == in_progress()) stuck(f.now, "a replacement contains what it replaces");
      if (!r) return push(s);
      ++f.source;
    }
    settle(f);
  }

  // All sources are done.
  void settle(Frame& f) {
    Node* n = rebuilt(f.now);
    if (n != f.now) {
      Node* known = memo_[n];
      if (known && known != in_progress()) return finish(known);
      f.now = n;
      if (stamp_ && (n->stamps & stamp_)) return finish(n);
    }
    if (Node* r = apply(n)) return become(r);
    finish(n);
  }

  Node* rebuilt(Node* n) {
    sources_.clear();
    bool changed = false;
    for (Node* s : n->src()) {
      Node* r = stamp_ && (s->stamps & stamp_) ? s : memo_[s];
      sources_.push_back(r);
      changed |= r != s;
    }
    if (!changed) return n;
    Node* r = with_src(n, sources_).get();
    if (!r->provenance) r->provenance = n->provenance;
    return r;
  }

  Node* apply(Node* n) {
    const Rule* rule = nullptr;
    Node* r = matcher_.apply(n, context_, &rule);
    if (!r) return nullptr;
    recent_[fires_++ % recent_.size()] = rule;
    if (fires_ > 100'000 + 256 * originals_) stuck(n, "the rules do not come to an end");
    if (!r->provenance) r->provenance = n->provenance;
    if (Trace::is_on()) [[unlikely]]
      Trace::tell({Change::Rule, set_.name(), n, r, rule});
    return r;
  }

  // The top frame's node is replaced by r, which is visited from its start.
  void become(Node* r) {
    Node* known = memo_[r];
    if (known == in_progress()) stuck(r, "the rules lead back to where they began");
    if (known) return finish(known);
    Frame& f = stack_.back();
    f.now = r;
    f.source = 0;
  }

  void finish(Node* result) {
    Frame f = stack_.back();
    stack_.pop_back();
    memo_[f.key] = result;
    memo_[f.now] = result;
    memo_[result] = result;
    result->stamps |= stamp_;
  }

  [[noreturn]] void stuck(Node* n, const char* what) {
    std::string out =
        text("internal error: rewrite with ", set_.name(), ": ", what, "; the last rules were\n");
    size_t count = std::min<uint64_t>(fires_, recent_.size());
    for (size_t k = 0; k < count; ++k)
      out += "  " + text_of(*recent_[(fires_ - count + k) % recent_.size()]) + "\n";
    std::string graph = print(n);
    if (graph.size() > 4000) graph = "...\n" + graph.substr(graph.size() - 4000);
    fail(ErrorKind::Internal, out + "on\n" + graph);
  }

  const RuleSet& set_;
  const Matcher& matcher_;
  void* context_;
  Lease<Scratch> lease_;
  Memo<Node*>& memo_;
  std::vector<Frame>& stack_;
  std::vector<Node*>& sources_;
  uint32_t stamp_, first_new_;
  uint64_t fires_ = 0, originals_ = 0;
  std::array<const Rule*, 12> recent_{};
};

}  // namespace

UOp rewrite(UOp root, const RuleSet& rules, void* context) {
  if (root->stamps & rules.stamp()) return root;
  return Rewriter(rules, context).run(root.get());
}

UOp apply_once(UOp node, const RuleSet& rules, void* context) {
  const Rule* rule = nullptr;
  UOp r = rules.matcher().apply(node.get(), context, &rule);
  if (r && Trace::is_on()) Trace::tell({Change::Rule, rules.name(), node, r, rule});
  return r;
}

}  // namespace mote

// How programs change: tables of rules (pattern.h), compiled once, run to a fixed point.
//
//   const RuleSet simplify_rules{"simplify", RuleSet::Pure, {identities, divmod}};
//   UOp r = rewrite(root, simplify_rules);
//
// A table tries its rules in the order written; the first that applies wins and the replacement is
// itself rewritten until no rule applies. Every node below root is rewritten once per call. Works
// on nodes of the current arena; no recursion, calls may nest (a rule may rewrite).
// Rule tables are read-only and may be used by many threads at once, each with its own arena.
#pragma once
#include <atomic>
#include <functional>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include "ir/memo.h"
#include "ir/target.h"
#include "rewrite/pattern.h"

namespace mote {

class Matcher;  // a compiled table

class RuleSet {
 public:
  // A Pure set looks only at the node, never at context or users, and keeps dtype and shape: its
  // normal forms are remembered in Node::stamps, so rewriting them again costs nothing. At most 32
  // sets of a process are stamped; later ones work without.
  enum Kind { Pure, Structural };
  RuleSet(const char* name, Kind kind, std::initializer_list<std::span<const Rule>> tables);
  RuleSet(const RuleSet&) = delete;
  const char* name() const { return name_; }
  Kind kind() const { return kind_; }
  uint32_t stamp() const { return stamp_; }  // one bit, or 0
  const std::vector<const Rule*>& rules() const { return *rules_; }
  const Matcher& matcher() const;  // compiled at first use

 private:
  const char* name_;
  Kind kind_;
  uint32_t stamp_;
  std::vector<const Rule*>* rules_;  // kept for good, as the matcher is: programs compute at exit
  mutable std::atomic<const Matcher*> matcher_{nullptr};
};

// Throws an Internal error naming the last rules when the rules do not come to an end.
UOp rewrite(UOp root, const RuleSet& rules, void* context = nullptr);
// The first rule that applies to this node, once; an empty UOp when none does.
UOp apply_once(UOp node, const RuleSet& rules, void* context = nullptr);

// What the rewrites of this thread have cost since it started.
struct RewriteCounts {
  uint64_t visits = 0;    // nodes looked at, once per call
  uint64_t attempts = 0;  // rules tried on a node
};
RewriteCounts rewrite_counts();

// ---- Maps: changes that need more than a node, its sources and a context

// What stands for the nodes below the one that is being mapped.
struct Mapped {
  std::span<Node* const> src;  // of the node itself
  Memo<Node*>& nodes;
  UOp operator()(UOp below) const { return nodes[below]; }
};
using MapFunction = UOp (*)(void* context, UOp node, const Mapped& now);
using MapNeeds = std::function<std::span<Node* const>(UOp node)>;
UOp map_nodes(const char* name, UOp root, MapFunction function, void* context,
              const MapNeeds& needs);

// The graph below root, sources first: f(UOp node, const Mapped& now) gives what stands for a node.
// Where it gives nothing, that is the node with its new sources, the same one if none changed.
// `needs` may ask for others before a node: it names them all, its sources included.
template <class F>
UOp map_nodes(const char* name, UOp root, F f, const MapNeeds& needs = {}) {
  auto call = [](void* g, UOp n, const Mapped& now) { return (*static_cast<F*>(g))(n, now); };
  return map_nodes(name, root, call, &f, needs);
}
// The graph with each key replaced by its value, which is final; unchanged parts are shared.
UOp substitute(UOp root, std::span<const std::pair<UOp, UOp>> map);
// The graph below root, which may be in another arena, made anew in the current one; each key is
// replaced by its value, a node of the current arena.
UOp import(UOp root, std::span<const std::pair<UOp, UOp>> map = {});

// ---- Traces

enum class Change : uint8_t { Rule, Map, Pass };
// A change of a program, on whatever thread, told of when it is done.
struct TraceEvent {
  Change kind;
  const char* name;            // of the rule set, the map or the pass
  UOp before, after;           // nodes of that thread's arena, valid until the callback returns
  const Rule* rule = nullptr;  // that was applied
  int thread = 0;              // numbered as they first appear
};
// Sees what changes programs in the whole process while it lives: every pass, and each rule and map
// that gave something else. It is called on the thread that does it, by one thread at a time, and
// not for what it does itself; it must not throw. Where there is none, a change costs one relaxed
// load of an atomic.
class Trace {
 public:
  explicit Trace(std::function<void(const TraceEvent&)> see);
  ~Trace();  // it is not called any more; not to be done in the call
  Trace(const Trace&) = delete;

  static bool is_on() { return attached_.load(std::memory_order_relaxed) != 0; }
  static void tell(TraceEvent event);

 private:
  std::function<void(const TraceEvent&)> see_;
  static std::atomic<int> attached_;
};

// ---- Passes: a stage is a list of them, the table of contents of what happens to the program

template <class Context>  // a Target, or the Targets of a plan
struct PassFor {
  const char* name;
  UOp (*run)(UOp root, const Context& context);
  const char* why;  // it stands here
};
using Pass = PassFor<Target>;
template <class Context, size_t count>
UOp run_passes(UOp root, const PassFor<Context> (&passes)[count], const Context& context) {
  for (const PassFor<Context>& p : passes) {
    const UOp before = root;
    root = p.run(root, context);
    if (Trace::is_on()) Trace::tell({Change::Pass, p.name, before, root});
  }
  return root;
}

}  // namespace mote

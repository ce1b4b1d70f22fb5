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
#include <string>
#include <unordered_map>
#include <vector>

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

enum class Order {
  PostOrder,  // sources first; replacements are visited like any node
  PreOrder,   // the node before its sources, and again if they changed it
  Once,       // sources first; a replacement is final
};

// Throws an Internal error naming the last rules when the rules do not come to an end.
UOp rewrite(UOp root, const RuleSet& rules, Order order = Order::PostOrder,
            void* context = nullptr);
// The first rule that applies to this node, once; an empty UOp when none does.
UOp apply_once(UOp node, const RuleSet& rules, void* context = nullptr);

// What the rewrites of this thread have cost since it started.
struct RewriteCounts {
  uint64_t visits = 0;    // nodes looked at, once per call
  uint64_t attempts = 0;  // rules tried on a node
};
RewriteCounts rewrite_counts();

// Watches this thread's rewrites while it lives. Costs nothing when there is none.
struct RewriteTrace {
  struct Count {
    uint64_t attempts = 0, fires = 0;
  };
  std::unordered_map<const Rule*, Count> counts;
  std::function<void(const RuleSet&, const Rule&, UOp before, UOp after)> fired;
  RewriteTrace();
  ~RewriteTrace();
  RewriteTrace(const RewriteTrace&) = delete;
  std::string report() const;  // one line per rule, most fired first

 private:
  RewriteTrace* outer_;
};

// A stage is a list of passes: the table of contents of what happens to the program.
struct Pass {
  const char* name;
  UOp (*run)(UOp root, const Target& target);
  const char* why;  // it stands here
};
// Called after each pass with its result, when set.
using PassHook = std::function<void(const Pass&, UOp result)>;
void set_pass_hook(PassHook hook);  // of this thread
UOp run_passes(UOp root, std::span<const Pass> passes, const Target& target);

}  // namespace mote

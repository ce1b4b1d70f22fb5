// A rule table compiled for matching: commuted orders written out, indexed by root op and the
// classes of the first three sources, each cell in table order.
#pragma once
#include <memory>

#include "rewrite/rewrite.h"

namespace mote {

// What the index knows of a source: its op, and of constants whether they are 0, 1, -1 or other.
constexpr int kClasses = kOps + 4;  // the op Const itself stands for "no such source"
int class_of(const Node* node);

// One order of a rule's left side: the pattern with commuting sources exchanged and the dtypes
// that its nodes can have.
struct Form {
  const Rule* rule;
  Pat left;
  std::array<uint8_t, kPatNodes> user{}, source{};  // of each node: of which it is which source
  Form(const Rule& r, const Pat& order);
};

class Matcher {
 public:
  explicit Matcher(const RuleSet& set);
  // The replacement of node by the first rule that applies; *fired is that rule. Or null.
  Node* apply(Node* node, void* context, const Rule** fired) const;
  const std::vector<Form>& forms() const { return forms_; }
  // Whether this form matches the node, guard included, and what it then gives (tests).
  Node* apply_form(int form, Node* node, void* context = nullptr) const;

 private:
  struct Cell {
    uint32_t begin = 0, end = 0;  // of candidates_
  };
  struct Index {  // per root op
    uint8_t group[3][kClasses] = {};
    int groups[3] = {1, 1, 1};
    std::vector<Cell> cells;
  };

  void index(Op op);
  Node* try_form(const Form& form, Node* node, Match& m) const;

  bool pure_;
  std::vector<Form> forms_;
  std::vector<uint32_t> candidates_;  // forms
  std::unique_ptr<Index> roots_[kOps];
};

// What rewrite_counts() gives.
extern constinit thread_local RewriteCounts thread_counts;

// All orders of the commuting nodes of a pattern (at most three of them are exchanged).
std::vector<Pat> commuted(const Pat& left);
// The dtypes each node of a pattern can have, by agreement with its neighbours.
std::array<DTypes, kPatNodes> infer_dtypes(const Pat& pat);
// The right side for a match, in the current arena; null when a fold overflows.
Node* build_right(const Rule& rule, const Match& m);
bool guard_holds(const Rule& rule, const Match& m);

}  // namespace mote

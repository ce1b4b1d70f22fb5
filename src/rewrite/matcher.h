// A rule table compiled for matching: commuted orders written out, indexed by root op and the
// classes of the first three sources, each cell in table order.
#pragma once
#include <memory>

#include "rewrite/rewrite.h"

namespace mote {

// What the index knows of a source: its op, and of constants whether they are 0, 1, -1 or other.
constexpr int kClasses = kOps + 4;  // the op Const itself stands for "no such source"
int class_of(const Node* node);

// One order of a rule's left side: the pattern with commuting sources exchanged.
struct Form {
  const Rule* rule;
  Pat left;
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
  struct Step {
    enum Kind : uint8_t { Descend, Bind, BindConst, Same, Number } kind;
    uint8_t parent, child;  // register and which source of it
    uint8_t to;             // register or variable
    Op op;
    uint8_t nsrc;
    bool check, more;  // check: the cell does not already imply the op or constant
    DTypes dtypes;
    double value;
  };
  struct Program {
    const Rule* rule;
    DTypes root, first;   // dtypes the root and its first source may have
    uint32_t begin, end;  // of steps_
    uint8_t nsrc;
    bool more;
  };
  struct Cell {
    uint32_t begin = 0, end = 0;  // of candidates_
  };
  struct Index {  // per root op
    uint8_t group[3][kClasses] = {};
    int groups[3] = {1, 1, 1};
    std::vector<Cell> cells;
  };

  void compile(const Form& form);
  void index(Op op);
  bool match(const Program& program, const Node* node, Match& m) const;
  Node* try_program(const Program& program, Node* node, Match& m) const;

  bool pure_;
  std::vector<Form> forms_;
  std::vector<Program> programs_;  // one per form
  std::vector<Step> steps_;
  std::vector<uint32_t> candidates_;
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

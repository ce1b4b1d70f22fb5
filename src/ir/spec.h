// What a graph may look like between stages: tables of rules, checked node by node in tests and
// debug builds.
#pragma once
#include "ir/node.h"
#include "ir/target.h"

namespace mote {

enum class Stage : uint8_t {
  Tensor,   // what the user wrote: whole arrays, movement, versions of buffers
  Kernel,   // in a plan: Sink(End(Store(Index(Param, position), value), ranges...)...);
            // an Index read as a value is what is at that place
  Plan,     // after schedule: a Linear of Calls and Copies (schedule/plan.h)
  Program,  // after lower: a Linear of statements (lower/lower.h)
};

// Throws an Internal error that names the pass, the rule and the first node that breaks it, printed
// with what is below it. No recursion; linear in the graph.
void verify(UOp root, Stage stage, const char* pass);
// Throws likewise if a program uses a dtype that the target lacks, or more buffers than it allows.
void verify_target(UOp linear, const Target& target, const char* pass);
// The same if the graph's text does not parse back to the graph itself (in the current arena).
void verify_text(UOp root, const char* pass);

}  // namespace mote

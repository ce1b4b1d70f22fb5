#include "base/error.h"
#include "ir/build.h"
#include "rewrite/rewrite.h"

namespace mote {

namespace {

Node* in_progress() { return reinterpret_cast<Node*>(1); }

// A node that waits for others, the next of which is to be looked at.
struct Waiting {
  Node* node;
  Node* const* next;
  Node* const* end;
};

// Maps everything below root that `done` does not know yet.
UOp map_unknown(UOp root, Memo<Node*>& done, MapFunction function, void* context,
                const MapNeeds& needs) {
  std::vector<Waiting> stack;
  std::vector<Node*> src;
  auto ask_for = [&](Node* n) {
    Node*& known = done[n];
    ensure(known != in_progress(), "map: a node needs itself");
    if (known) return;
    known = in_progress();
    const std::span<Node* const> first = needs ? needs(n) : n->src();
    stack.push_back({n, first.data(), first.data() + first.size()});
  };
  ask_for(root.get());
  while (!stack.empty()) {
    Waiting& top = stack.back();
    if (top.next != top.end) {
      ask_for(*top.next++);
      continue;
    }
    Node* n = top.node;
    stack.pop_back();
    src.clear();
    bool changed = false;
    for (Node* s : n->src()) {
      src.push_back(done[s]);
      changed |= src.back() != s;
    }
    Node* now = function ? function(context, n, Mapped{src, done}).get() : nullptr;
    if (!now) now = changed ? with_src(n, src).get() : n;
    if (!now->provenance) now->provenance = n->provenance;
    done[n] = now;
  }
  return done[root];
}

UOp told(const char* name, UOp before, UOp after) {
  if (after != before && Trace::is_on()) Trace::tell({Change::Map, name, before, after});
  return after;
}

}  // namespace

UOp map_nodes(const char* name, UOp root, MapFunction function, void* context,
              const MapNeeds& needs) {
  MemoLease<Node*> done;
  return told(name, root, map_unknown(root, *done, function, context, needs));
}

static UOp map_but(std::span<const std::pair<UOp, UOp>> known, UOp root, MapFunction function) {
  MemoLease<Node*> lease;
  Memo<Node*>& done = *lease;
  for (const auto& [from, to] : known)
    if (!done[from]) done[from] = to.get();
  return map_unknown(root, done, function, nullptr, {});
}

UOp substitute(UOp root, std::span<const std::pair<UOp, UOp>> map) {
  return told("substitute", root, map_but(map, root, nullptr));
}

UOp import(UOp root, std::span<const std::pair<UOp, UOp>> map) {
  return map_but(map, root, [](void*, UOp n, const Mapped& now) { return with_src(n, now.src); });
}

}  // namespace mote

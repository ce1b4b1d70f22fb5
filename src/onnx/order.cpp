// The order of nodes.
#include <queue>
#include <unordered_map>

#include "onnx/proto.h"

namespace mote::onnx {

namespace {

// All names that a node uses, those of its graphs too.
void add_uses(const Node& node, std::vector<std::string_view>& out) {
  out.insert(out.end(), node.inputs.begin(), node.inputs.end());
  for (const Attribute& a : node.attributes) {
    if (!a.graph) continue;
    for (const Node& inner : a.graph->nodes) add_uses(inner, out);
    for (const Port& p : a.graph->outputs) out.push_back(p.name);
  }
}

}  // namespace

void sort_nodes(std::vector<Node>& nodes) {
  // Some files give a name twice; then the last one counts, so all of them come first.
  std::unordered_multimap<std::string_view, size_t> makers;
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const std::string_view name : nodes[i].outputs)
      if (!name.empty()) makers.emplace(name, i);
  std::vector<std::vector<size_t>> users(nodes.size());
  std::vector<size_t> waits(nodes.size());
  bool sorted = true;
  for (size_t i = 0; i < nodes.size(); ++i) {
    std::vector<std::string_view> uses;
    add_uses(nodes[i], uses);
    for (const std::string_view name : uses) {
      const auto [begin, end] = makers.equal_range(name);
      for (auto from = begin; from != end; ++from) {
        if (from->second == i) continue;
        sorted &= from->second < i;
        users[from->second].push_back(i);
        ++waits[i];
      }
    }
  }
  if (sorted) return;
  std::priority_queue<size_t, std::vector<size_t>, std::greater<>> ready;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (waits[i] == 0) ready.push(i);
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t i = ready.top();
    ready.pop();
    order.push_back(i);
    for (const size_t user : users[i])
      if (--waits[user] == 0) ready.push(user);
  }
  if (order.size() != nodes.size()) return;  // a circle: the run says which value is missing
  std::vector<Node> moved;
  for (const size_t i : order) moved.push_back(std::move(nodes[i]));
  nodes = std::move(moved);
}

}  // namespace mote::onnx

#include <cstdlib>
#include <stdexcept>

#include "ops_table.h"

namespace mote::test {

namespace {

[[noreturn]] void wrong(const GoldenCase& c, const std::string& what) {
  throw std::runtime_error("[goldens] " + c.name + ": " + what);
}

Slice parse_slice(const std::string& token) {
  Slice::Bound part[3];
  int at = 0;
  std::string text;
  for (char ch : token + ":") {
    if (ch != ':') { text += ch; continue; }
    if (!text.empty()) part[at] = Slice::Bound(std::atoll(text.c_str()));
    at++;
    text.clear();
  }
  return Slice(part[0], part[1], part[2].given ? part[2].at.value() : 1);
}

Index parse_index(const Call& c, const std::string& token) {
  if (token == "...") return Ellipsis;
  if (token == "None") return None;
  if (token[0] == 'T') return c.inputs.at(std::strtoull(token.c_str() + 1, nullptr, 10));
  if (token.find(':') != std::string::npos) return parse_slice(token);
  return std::atoll(token.c_str());
}

}  // namespace

const Attr& Call::attr(const char* key) const {
  auto it = golden.attrs.find(key);
  if (it == golden.attrs.end()) wrong(golden, std::string("no attribute ") + key);
  return it->second;
}

const Tensor& Call::x(size_t i) const {
  for (size_t k = 0; k < inputs.size(); k++)
    if (golden.inputs[k].role.empty() && i-- == 0) return inputs[k];
  wrong(golden, "too few inputs");
}

std::vector<Tensor> Call::positional(size_t from) const {
  std::vector<Tensor> out;
  for (size_t k = 0; k < inputs.size(); k++) {
    if (!golden.inputs[k].role.empty()) continue;
    if (from > 0) from--;
    else out.push_back(inputs[k]);
  }
  return out;
}

Tensor Call::role(const char* name) const {
  for (size_t k = 0; k < inputs.size(); k++)
    if (golden.inputs[k].role == name) return inputs[k];
  return {};
}

Number Call::number(const char* key) const {
  const Attr& a = attr(key);
  if (auto* b = std::get_if<bool>(&a)) return *b;
  if (auto* i = std::get_if<int64_t>(&a)) return *i;
  if (auto* f = std::get_if<double>(&a)) return *f;
  wrong(golden, std::string(key) + " is no number");
}

bool Call::flag(const char* key, bool otherwise) const {
  return has(key) ? number(key).f != 0 : otherwise;
}

int64_t Call::integer(const char* key, int64_t otherwise) const {
  return has(key) ? number(key).i : otherwise;
}

double Call::real(const char* key, double otherwise) const {
  return has(key) ? number(key).f : otherwise;
}

const char* Call::text(const char* key, const char* otherwise) const {
  if (!has(key)) return otherwise;
  if (auto* s = std::get_if<std::string>(&attr(key))) return s->c_str();
  wrong(golden, std::string(key) + " is no text");
}

std::vector<int64_t> Call::ints(const char* key) const {
  if (!has(key)) return {};
  if (auto* l = std::get_if<std::vector<int64_t>>(&attr(key))) return *l;
  return {integer(key)};
}

std::vector<double> Call::reals(const char* key) const {
  if (!has(key)) return {};
  if (auto* l = std::get_if<std::vector<double>>(&attr(key))) return *l;
  return {real(key)};
}

DType Call::dtype(const char* key) const {
  if (!has(key)) return DType::none;
  for (int d = 0; d < kDTypes; d++)
    if (std::string_view(text(key)) == name(static_cast<DType>(d))) return static_cast<DType>(d);
  wrong(golden, std::string("unknown dtype ") + text(key));
}

Reduction Call::reduction() const {
  std::string_view r = text("reduction", "mean");
  return r == "none" ? Reduction::none : r == "sum" ? Reduction::sum : Reduction::mean;
}

std::vector<Index> Call::indices() const {
  std::vector<Index> out;
  std::string token;
  for (const char* p = text("index");; p++) {
    if (*p == ' ') continue;
    if (*p && *p != ',') { token += *p; continue; }
    out.push_back(parse_index(*this, token));
    token.clear();
    if (!*p) return out;
  }
}

const TestedOp* find_op(std::string_view op) {
  for (auto rows : {shape_rows(), elementwise_rows(), reduction_rows(), network_rows(), more_rows(),
                    signal_rows(), linalg_rows()})
    for (const TestedOp& row : rows)
      if (op == row.op) return &row;
  return nullptr;
}

}  // namespace mote::test

// `mote bench wide`: operations, layouts and models of many shapes beside PyTorch.
//
// The rows are text (tools/bench_wide.rows): one line each, a small program that this side and the
// child process tools/bench_wide.py both interpret. So a row is written once, and a new one needs
// no code as long as both sides know the functions it calls.
#pragma once
#include <mote/tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mote::wide {

// ---- the table (bench_wide_rows.cpp)

struct Row {
  std::string name, kind;
  std::string program;
  bool drawn = false;  // its sizes depend on the seed
};
// The rows of a table, choices made: {a|b|c} is one of these, {2..9} a number from 2 to 9, {n:...}
// also names it, {let n:...} only names it, {n} is that again, {=n*2+1} is computed from names.
std::vector<Row> read_rows(std::string_view table, const std::string& file, uint64_t seed);

// ---- programs (bench_wide_script.cpp)

// NAME = EXPRESSION; repeat 3: NAME = EXPRESSION; EXPRESSION. The last one is the result, a tensor
// or a list of them. Expressions are Python's: calls with keywords, lists, numbers, 'text', + - * /
// @ and parentheses.
struct Expr {
  enum Kind : uint8_t { Number, Text, Name, List, Call } kind = Number;
  mote::Number number = {};
  std::string text = {};                   // of a text; a name; what is called
  std::vector<Expr> args = {};             // of a call, of a list
  std::vector<std::string> keywords = {};  // of a call's last args
};
struct Statement {
  int64_t times = 1;
  std::string target;  // "" in the last one
  Expr value;
};

struct Value {
  enum Kind : uint8_t { None, Number, Text, Tensor, List } kind = None;
  mote::Number number = {};
  std::string text = {};
  mote::Tensor tensor = {};
  std::vector<Value> list = {};
  Value() = default;
  Value(mote::Tensor t) : kind(Tensor), tensor(std::move(t)) {}
  Value(const std::vector<mote::Tensor>& all);
};

// The arguments of a call, by place or by name. What is missing takes the default; without one, and
// where the kind is another, it is an error.
class Args {
 public:
  Args(const Expr& call, std::vector<Value> values) : call_(call), values_(std::move(values)) {}
  size_t count() const { return values_.size() - call_.keywords.size(); }  // without keywords
  const Value* find(size_t place, std::string_view name) const;
  mote::Tensor tensor(size_t place) const;
  mote::Tensor tensor_or_none(size_t place, std::string_view name = "") const;
  std::vector<mote::Tensor> tensors(size_t place) const;
  Operand operand(size_t place) const;  // refers to this
  int64_t integer(size_t place, std::string_view name, int64_t otherwise = kNeeded) const;
  double number(size_t place, std::string_view name, double otherwise) const;
  bool flag(size_t place, std::string_view name) const { return integer(place, name, 0) != 0; }
  std::string text(size_t place, std::string_view name, const std::string& otherwise) const;
  Ints ints(size_t place, std::string_view name, const Ints& otherwise) const;
  std::vector<int64_t> all_integers() const;  // the arguments that are no keywords
  const std::string& callee() const { return call_.text; }

 private:
  static constexpr int64_t kNeeded = INT64_MIN;
  const Value& needed(size_t place, Value::Kind kind) const;
  const Expr& call_;
  std::vector<Value> values_;
};

using Function = std::function<Value(const Args&)>;
// Functions of tensors by name (bench_wide_calls.cpp, bench_wide_layers.cpp).
const Function* find_function(std::string_view name);
void add_layer_functions(std::map<std::string, Function, std::less<>>&);

// What a program holds from one run to the next: inputs, and models with their weights.
using Held = std::function<Value(const Args&)>;
// The `index`-th input of a program; lazily: zeros, which are free on device NULL.
Held make_input(const Args&, uint32_t index, bool lazily);  // bench_wide_inputs.cpp
// model('resnet18', x): its result; train('resnet18', 'sgd', x, labels): the loss of a step.
Held make_model(const Expr& call, bool lazily);  // bench_wide_models.cpp

// The rule by which both sides fill tensors.
std::vector<float> uniform_values(int64_t count, uint32_t seed, float spread, float middle);
std::vector<int64_t> integer_values(int64_t count, uint32_t seed, int64_t below, int64_t low);
uint32_t name_seed(std::string_view name);

class Script {
 public:
  explicit Script(const std::string& text);
  // Makes inputs and models; lazily: without values of their own, for device NULL.
  void prepare(bool lazily = false);
  std::vector<Tensor> run();

  double tolerance(double otherwise) const;  // `tol = 1e-2` in the program
  bool is_random() const;                    // only the moments of its results can be compared

 private:
  Value evaluate(const Expr&);
  Args arguments(const Expr&);
  void prepare(const Expr&, bool lazily);
  std::vector<Statement> statements_;
  std::map<std::string, Value, std::less<>> names_;
  std::map<const Expr*, Held> held_;
  uint32_t inputs_ = 0;
};

// The expression's value where it has numbers only; quotients are rounded down.
int64_t integer_value(std::string_view expression,
                      const std::map<std::string, int64_t, std::less<>>& names);
Expr parse_expression(std::string_view text);

// ---- comparing (bench_wide_compare.cpp)

// What is wrong with our results, or "". In the file are PyTorch's: for each 1 and the count and
// f32 values, or 0 and the count and i64 values.
std::string compare_results(const std::string& file, const std::vector<Tensor>& got, const Script&);

// ---- results (bench_wide_results.cpp)

struct Figures {
  Row row;
  double peer_ms = 0, ms = 0;  // 0: not measured
  std::string wrong;           // what is wrong with our side or with the row
  bool over = false;           // we were stopped, and ms is how long we had
  double ratio() const { return ms > 0 && peer_ms > 0 ? peer_ms / ms : 0; }
};

// Lines that an interrupted run left, which the next one continues. A line is valid for the same
// build, threads and program.
class Results {
 public:
  Results(const std::string& path, int threads);
  const Figures* find(const Row&) const;
  void add(const Figures&);
  void remove();

 private:
  std::string key(const Row&) const;
  std::string path_, before_;
  std::map<std::string, Figures> found_;
};

void print_line(const Figures&);
void print_json(const std::vector<Figures>&);
// By class, then the last line: the geometric mean with ratios capped at 2, and how many are low.
void print_summary(const std::vector<Figures>&, FILE* to);
bool holds(const std::vector<Figures>&);  // the bars

}  // namespace mote::wide

// The programs of `mote bench wide`: parsed, then evaluated as often as they are run.
#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/number.h"
#include "cli/bench_wide.h"

namespace mote::wide {

namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// By recursive descent: sums of products of factors.
class Parser {
 public:
  explicit Parser(std::string_view text) : all_(text), left_(text) {}

  std::vector<Statement> program() {
    std::vector<Statement> out;
    do { out.push_back(statement()); } while (take(';'));
    expect_end();
    return out;
  }
  Expr whole_expression() {
    Expr out = sum();
    expect_end();
    return out;
  }

 private:
  Statement statement() {
    Statement out;
    if (take_word("repeat")) {
      out.times = factor().number.i;
      expect(':');
    }
    const std::string_view before = left_;
    out.target = word();
    skip_spaces();
    if (out.target.empty() || !take('=')) out.target.clear(), left_ = before;
    out.value = sum();
    return out;
  }
  Expr sum() {
    Expr out = product();
    for (;;) {
      if (take('+'))
        out = infix("add", std::move(out), product());
      else if (take('-'))
        out = infix("sub", std::move(out), product());
      else
        return out;
    }
  }
  Expr product() {
    Expr out = factor();
    for (;;) {
      if (take('*'))
        out = infix("mul", std::move(out), factor());
      else if (take('/'))
        out = infix("div", std::move(out), factor());
      else if (take('@'))
        out = infix("matmul", std::move(out), factor());
      else
        return out;
    }
  }
  static Expr infix(const char* name, Expr a, Expr b) {
    Expr out{Expr::Call};
    out.text = name;
    out.args.push_back(std::move(a));
    out.args.push_back(std::move(b));
    return out;
  }
  Expr factor() {
    skip_spaces();
    if (take('(')) {
      Expr out = sum();
      expect(')');
      return out;
    }
    if (take('[')) {
      Expr out{Expr::List};
      take_arguments(out, ']');
      return out;
    }
    if (take('\'')) return quoted();
    if (!left_.empty() &&
        (left_[0] == '-' || left_[0] == '.' || (left_[0] >= '0' && left_[0] <= '9')))
      return number();
    Expr out{Expr::Name};
    out.text = word();
    check(!out.text.empty(), "[bench] ", place(), "no value there");
    if (take('(')) {
      out.kind = Expr::Call;
      take_arguments(out, ')');
    }
    return out;
  }
  Expr quoted() {
    Expr out{Expr::Text};
    const size_t end = left_.find('\'');
    check(end != left_.npos, "[bench] ", place(), "a text without its end");
    out.text = left_.substr(0, end);
    left_.remove_prefix(end + 1);
    return out;
  }
  Expr number() {
    Expr out{Expr::Number};
    const size_t length = std::min(left_.find_first_not_of("0123456789.e-"), left_.size());
    const std::string_view digits = left_.substr(0, length);
    int64_t whole = 0;
    double real = 0;
    std::string_view rest = left_;
    if (digits.find_first_of(".e") == digits.npos && take_number(rest, whole))
      out.number = whole;
    else
      check(take_number(rest = left_, real), "[bench] ", place(), "no number"), out.number = real;
    left_ = rest;
    return out;
  }
  void take_arguments(Expr& out, char end) {
    while (!take(end)) {
      const std::string_view before = left_;
      std::string keyword = word();
      if (!keyword.empty() && take('='))
        out.keywords.push_back(keyword);
      else
        left_ = before;
      out.args.push_back(sum());
      skip_spaces();
      check(take(',') || left_.starts_with(end), "[bench] ", place(), "a comma is missing");
    }
  }

  std::string word() {
    skip_spaces();
    size_t n = 0;
    while (n < left_.size() && is_letter(left_[n])) ++n;
    std::string out(left_.substr(0, n));
    left_.remove_prefix(n);
    return out;
  }
  bool take_word(std::string_view which) {
    const std::string_view before = left_;
    if (word() == which) return true;
    left_ = before;
    return false;
  }
  void skip_spaces() {
    while (left_.starts_with(' ')) left_.remove_prefix(1);
  }
  bool take(char c) {
    skip_spaces();
    if (!left_.starts_with(c)) return false;
    left_.remove_prefix(1);
    return true;
  }
  void expect(char c) { check(take(c), "[bench] ", place(), "no ", c); }
  void expect_end() {
    skip_spaces();
    check(left_.empty(), "[bench] ", place(), "what is this?");
  }
  std::string place() const {
    return mote::text(all_.substr(0, all_.size() - left_.size()), " <here> ", left_, ": ");
  }
  std::string_view all_, left_;
};

const std::set<std::string_view> random_functions = {
    "rand", "randn", "randint", "dropout", "bernoulli", "multinomial", "randperm"};
bool calls_random(const Expr& e) {
  return (e.kind == Expr::Call && random_functions.contains(e.text)) ||
         std::ranges::any_of(e.args, calls_random);
}

}  // namespace

Expr parse_expression(std::string_view text) { return Parser(text).whole_expression(); }

static int64_t integer_value(const Expr& e,
                             const std::map<std::string, int64_t, std::less<>>& names) {
  if (e.kind == Expr::Number) return e.number.i;
  if (e.kind == Expr::Name) {
    auto it = names.find(e.text);
    check(it != names.end(), "[bench] no size is called ", e.text);
    return it->second;
  }
  check(e.kind == Expr::Call && e.args.size() == 2, "[bench] not a size: ", e.text);
  const int64_t a = integer_value(e.args[0], names), b = integer_value(e.args[1], names);
  if (e.text == "add") return a + b;
  if (e.text == "sub") return a - b;
  if (e.text == "mul") return a * b;
  check(e.text == "div" && b > 0, "[bench] not a size: ", e.text);
  return a / b;
}
int64_t integer_value(std::string_view expression,
                      const std::map<std::string, int64_t, std::less<>>& names) {
  return integer_value(parse_expression(expression), names);
}

// ---- arguments

Value::Value(const std::vector<mote::Tensor>& all) : kind(List) {
  for (const mote::Tensor& t : all) list.emplace_back(t);
}

const Value* Args::find(size_t place, std::string_view name) const {
  const size_t plain = count();
  if (place < plain) return &values_[place];
  for (size_t i = 0; i < call_.keywords.size(); ++i)
    if (call_.keywords[i] == name) return &values_[plain + i];
  return nullptr;
}
const Value& Args::needed(size_t place, Value::Kind kind) const {
  check(place < count() && values_[place].kind == kind, "[bench] ", call_.text, "() argument ",
        place, " is missing or of another kind");
  return values_[place];
}
Tensor Args::tensor(size_t place) const { return needed(place, Value::Tensor).tensor; }
Tensor Args::tensor_or_none(size_t place, std::string_view name) const {
  const Value* v = find(place, name);
  return v ? v->tensor : mote::Tensor();
}
std::vector<Tensor> Args::tensors(size_t place) const {
  std::vector<mote::Tensor> out;
  for (const Value& v : needed(place, Value::List).list) out.push_back(v.tensor);
  return out;
}
Operand Args::operand(size_t place) const {
  check(place < count(), "[bench] ", call_.text, "() argument ", place, " is missing");
  const Value& v = values_[place];
  return v.kind == Value::Tensor ? Operand(v.tensor) : Operand(v.number);
}
int64_t Args::integer(size_t place, std::string_view name, int64_t otherwise) const {
  const Value* v = find(place, name);
  check(v || otherwise != kNeeded, "[bench] ", call_.text, "() needs ", name);
  return v ? v->number.i : otherwise;
}
double Args::number(size_t place, std::string_view name, double otherwise) const {
  const Value* v = find(place, name);
  return v ? v->number.f : otherwise;
}
std::string Args::text(size_t place, std::string_view name, const std::string& otherwise) const {
  const Value* v = find(place, name);
  return v ? v->text : otherwise;
}
Ints Args::ints(size_t place, std::string_view name, const Ints& otherwise) const {
  const Value* v = find(place, name);
  if (!v) return otherwise;
  if (v->kind == Value::Number) return Ints(v->number.i);
  Ints out;
  for (const Value& item : v->list) out.list.push_back(item.number.i);
  return out;
}
std::vector<int64_t> Args::all_integers() const {
  std::vector<int64_t> out;
  for (size_t i = 0; i < count(); ++i) out.push_back(needed(i, Value::Number).number.i);
  return out;
}

// ---- programs

Script::Script(const std::string& text) : statements_(Parser(text).program()) {}

void Script::prepare(bool lazily) {
  for (const Statement& s : statements_) prepare(s.value, lazily);
}
// In the order of the text, which numbers the inputs; the other side does the same.
void Script::prepare(const Expr& e, bool lazily) {
  if (e.kind == Expr::Call) {
    if (e.text == "F" || e.text == "I" || e.text == "many") {
      held_[&e] = make_input(arguments(e), ++inputs_, lazily);
      return;
    }
    if (e.text == "model" || e.text == "train") held_[&e] = make_model(e, lazily);
  }
  for (const Expr& arg : e.args) prepare(arg, lazily);
}

Args Script::arguments(const Expr& call) {
  std::vector<Value> values;
  for (const Expr& arg : call.args) values.push_back(evaluate(arg));
  return {call, std::move(values)};
}

Value Script::evaluate(const Expr& e) {
  Value out;
  switch (e.kind) {
    case Expr::Number: out.kind = Value::Number, out.number = e.number; return out;
    case Expr::Text: out.kind = Value::Text, out.text = e.text; return out;
    case Expr::List:
      out.kind = Value::List;
      for (const Expr& item : e.args) out.list.push_back(evaluate(item));
      return out;
    case Expr::Name: {
      auto it = names_.find(e.text);
      check(it != names_.end(), "[bench] nothing is called ", e.text);
      return it->second;
    }
    case Expr::Call: break;
  }
  if (auto it = held_.find(&e); it != held_.end()) return it->second(arguments(e));
  const Function* f = find_function(e.text);
  check(f, "[bench] there is no function ", e.text);
  return (*f)(arguments(e));
}

std::vector<Tensor> Script::run() {
  names_.clear();
  Value last;
  for (const Statement& s : statements_)
    for (int64_t i = 0; i < s.times; ++i) {
      last = evaluate(s.value);
      if (!s.target.empty()) names_[s.target] = last;
    }
  names_.clear();
  if (last.kind == Value::Tensor) return {last.tensor};
  std::vector<Tensor> out;
  auto add = [&](auto& self, const Value& v) -> void {
    if (v.kind == Value::Tensor) out.push_back(v.tensor);
    for (const Value& item : v.list) self(self, item);
  };
  add(add, last);
  check(!out.empty(), "[bench] a program without a result");
  return out;
}

double Script::tolerance(double otherwise) const {
  for (const Statement& s : statements_)
    if (s.target == "tol") return s.value.number.f;
  return otherwise;
}
bool Script::is_random() const {
  return std::ranges::any_of(statements_, [](const Statement& s) { return calls_random(s.value); });
}

}  // namespace mote::wide

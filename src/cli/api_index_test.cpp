#include "cli/api_index.h"

#include <doctest/doctest.h>

using namespace mote;

namespace {

// "scope | names | text | note | comment" of each declaration.
std::string declared(const std::string& text) {
  std::string out;
  for (const Header& header : read_headers({
           {"mote/x.h", text}
  }))
    for (const DeclarationGroup& group : header.groups)
      for (const Declaration& d : group.declarations) {
        std::string names;
        for (const std::string& name : d.names) names += (names.empty() ? "" : " ") + name;
        out += d.scope + " | " + names + " | " + d.text + " | " + d.note + " | " + group.comment;
        if (!out.ends_with('\n')) out += '\n';
      }
  return out;
}

}  // namespace

TEST_CASE("api index: functions, their comments and the places of calls") {
  CHECK(declared("// The header.\n#pragma once\nnamespace mote {\n// Adds.\n"
                 "Tensor add(const Tensor& a, int b = 1, Loc = MOTE_HERE);  // lazily\n"
                 "inline int two(Loc where = MOTE_HERE) { return f({2}); }\n\nint alone();\n}") ==
        " | add | Tensor add(const Tensor& a, int b = 1) | lazily | Adds.\n"
        " | two | inline int two() |  | Adds.\n"
        " | alone | int alone() |  | \n");
  CHECK(read_headers({
            {"x", "// The header.\n#pragma once\nint f();\n"}
  })[0]
            .comment == "The header.\n");
}

TEST_CASE("api index: what is public of classes") {
  CHECK(
      declared("#define MOTE_FIELDS(...) void each_field()\n"
               "namespace mote::nn {\nstruct A : B<int> {  // a note\n  Tensor weight, bias = {};\n"
               "  MOTE_FIELDS(weight, bias)\n  A() = default;\n"
               "  explicit A(int n) : weight{n}, bias(n) {}\n  ~A();\n"
               "  A(const A&) = delete;\n  bool operator==(const A& o) const { return true; }\n"
               " private:\n  // Hidden.\n  int secret_ = 0;\n};\n"
               "class C {\n  int hidden;\n public:\n  enum Kind { One, Two } kind = One;\n"
               "  double (*formula)(int) = nullptr;\n};\nstruct Forward;\n}") ==
      " | MOTE_FIELDS | #define MOTE_FIELDS(...) |  | \n"
        "nn | A | struct A : B<int> | a note | \n"
      "nn::A | weight bias | Tensor weight, bias = {} |  | \n"
      "nn::A | A | A() = default |  | \n"
      "nn::A | A | explicit A(int n) |  | \n"
      "nn::A | operator== | bool operator==(const A& o) const |  | \n"
      "nn | C | class C |  | \n"
      "nn::C | Kind | enum Kind { One, Two } kind = One |  | \n"
      "nn::C | formula | double (*formula)(int) = nullptr |  | \n");
}

TEST_CASE("api index: templates and requirements") {
  CHECK(declared("template <class T>\nconcept Big = requires(T t) { t.f(); };\n"
                 "template <class T>\n  requires std::is_integral_v<T>\nint f(T x) { return 1; }\n"
                 "template <class... A>\nrequires(sizeof...(A) > 4) auto g(A&&... a) { h(); }\n"
                 "using Ints = std::vector<int>;\nconstexpr int a = 1, b = 2;\n") ==
        " | Big | template <class T> concept Big = requires(T t) { t.f(); } |  | \n"
        " | f | template <class T> requires std::is_integral_v<T> int f(T x) |  | \n"
        " | g | template <class... A> requires(sizeof...(A) > 4) auto g(A&&... a) |  | \n"
        " | Ints | using Ints = std::vector<int> |  | \n"
        " | a b | constexpr int a = 1, b = 2 |  | \n");
}

TEST_CASE("api index: macros that declare") {
  CHECK(declared(
            "// One in, one out.\n#define LIST(F) F(sin) \\\n  F(cos)\n"
            "#define DECLARE(name) Tensor name(Loc = MOTE_HERE);\nLIST(DECLARE)\n#undef DECLARE\n"
            "#define MODULE(Name, ...) struct Name { __VA_ARGS__; int f##Name(); }\n"
            "MODULE(Tan, int a = 1, b = 2);\n#undef MODULE\n") ==
        " | sin | Tensor sin() |  | One in, one out.\n"
        " | cos | Tensor cos() |  | One in, one out.\n"
        " | Tan | struct Tan |  | \n"
        "Tan | a b | int a = 1, b = 2 |  | \n"
        "Tan | fTan | int fTan() |  | \n");
}

// What the public headers declare, with the comments that stand there.
//
// Reads C++ as these headers write it, and no more: namespaces, classes, functions, variables,
// aliases, enumerations, and the macros that declare several of them. What is private or protected
// is left out, and so are the bodies of functions.
#pragma once
#include <string>
#include <vector>

namespace mote {

struct Declaration {
  std::vector<std::string> names;  // "matmul"; several in `double a = 1, b = 2;`
  std::string scope;               // "nn::Linear", "" for mote itself
  std::string text;                // without a body, and without the place of the call
  std::string note;                // the comment on its line
  bool is_class = false;           // or struct; its members follow with it as their scope
  int line = 0;
};

// Declarations that no blank line parts, and the comment over them. Without declarations: a comment
// that stands alone.
struct DeclarationGroup {
  std::string scope, comment;
  std::vector<Declaration> declarations;
};

struct Header {
  std::string name;     // "mote/nn.h"
  std::string comment;  // the one it begins with
  std::vector<DeclarationGroup> groups;
};

struct HeaderFile {
  std::string name, text;
};
std::vector<Header> read_headers(const std::vector<HeaderFile>& files);

// "nn::Linear" and "weight" make "nn::Linear::weight".
std::string qualified(const std::string& scope, const std::string& name);

}  // namespace mote

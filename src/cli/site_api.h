// The pages of `mote docs` that are made from the headers.
#pragma once
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cli/api_index.h"
#include "cli/markdown.h"

namespace mote {

struct ApiName {
  std::string name;                  // "nn::Linear::weight"; one for all overloads
  std::string header;                // "mote/nn.h"
  std::string href;                  // its first declaration
  std::string about;                 // what is said of it, in short
  std::set<std::string> pages = {};  // that mention it
};

class ApiIndex {
 public:
  ApiIndex() = default;
  explicit ApiIndex(std::vector<Header> headers);

  const std::vector<Header>& headers() const { return headers_; }
  const std::vector<ApiName>& names() const { return names_; }
  static std::string page_of(const std::string& header);  // "api-nn.html"

  // Where a name leads to that stands in a page as code: `nn::Linear`, `x.matmul(y)`, `realize`;
  // "" for what is no name of the headers, or one of several. The page is remembered.
  std::string link(std::string_view code, const std::string& page);
  // Remembers the page for the names that a piece of C++ uses.
  void note_code(std::string_view code, const std::string& page);

  // titles: of the pages, by file.
  using Titles = std::map<std::string, std::string>;
  std::string index_page(const Titles& titles) const;
  std::string header_page(const Header& header, const Titles& titles) const;
  static std::vector<Section> classes_of(const Header& header);  // those that are in no other

 private:
  ApiName* find(std::string_view code);
  std::vector<Header> headers_;
  std::vector<ApiName> names_;
  std::map<std::string, size_t> by_name_;  // also by the last parts of a name; npos: of several
};

}  // namespace mote

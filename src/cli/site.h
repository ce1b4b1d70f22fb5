// The documentation as a static site: the pages of a source tree, its examples and the index of its
// headers, as files of one folder that link to each other and to nothing outside.
#pragma once
#include <map>
#include <string>

namespace mote {

struct Website {
  std::map<std::string, std::string> files;  // by name; HTML, CSS and JavaScript
  size_t pages = 0, declarations = 0;
};

// source: the folder with README.md, docs/, examples/ and include/mote/. A link that leads to
// nothing there is an error that names the page.
Website make_website(const std::string& source);

// site_look.cpp: what all pages share.
extern const char* const site_style;
extern const char* const site_script;

}  // namespace mote

// Markdown as this repository's pages use it, as HTML: headings, paragraphs, lists in lists,
// tables, fenced and indented code, quotes, rules, links, code, strong and emphasised text. Raw
// HTML is text like any other, so that nothing in a page can become markup.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace mote {

std::string escape_html(std::string_view text);

// What a page says under one heading, without markup.
struct Section {
  int level = 1;
  std::string title, anchor;
  std::string words;
};

struct MarkdownOptions {
  // Where a link leads to on the site. None: as it is written.
  std::function<std::string(std::string_view target)> link = {};
  // What to call a target whose link repeats its file's name: [jit.md](jit.md). None: so.
  std::function<std::string(std::string_view target)> title = {};
  // What a piece of inline code names; "" for nothing. None: no code is a link.
  std::function<std::string(std::string_view code)> code_link = {};
  // The inside of a block of code. None: escaped.
  std::function<std::string(std::string_view language, std::string_view code)> code = {};
};

struct MarkdownPage {
  std::string html, title;
  std::vector<Section> sections;  // the first is what stands before any heading
};

// Headings have the anchors that code hosts give them: `## Beside PyTorch` is #beside-pytorch.
MarkdownPage convert_markdown(std::string_view text, const MarkdownOptions& options = {});

}  // namespace mote

#include "cli/markdown.h"

#include <doctest/doctest.h>

#include "cli/highlight.h"

using namespace mote;

namespace {

std::string html(std::string_view text, const MarkdownOptions& options = {}) {
  std::string out = convert_markdown(text, options).html;
  for (size_t at; (at = out.find('\n')) != out.npos;) out.erase(at, 1);
  return out;
}

}  // namespace

TEST_CASE("markdown: what stands in a line") {
  CHECK(html("a < b && \"c\"") == "<p>a &lt; b &amp;&amp; &quot;c&quot;</p>");
  CHECK(html("<script>alert(1)</script>") == "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>");
  CHECK(html("`a < *b*` and ``c ` d``") == "<p><code>a &lt; *b*</code> and <code>c ` d</code></p>");
  CHECK(html("**strong** and *soft*, a * b * c, snake_case_name and _so_") ==
        "<p><strong>strong</strong> and <em>soft</em>, a * b * c, snake_case_name and "
        "<em>so</em></p>");
  CHECK(html("**a `x*y` b**") == "<p><strong>a <code>x*y</code> b</strong></p>");
  CHECK(html("one\ntwo\n\nthree") == "<p>onetwo</p><p>three</p>");  // html() drops newlines
  CHECK(html("\\*not\\* `a\\b`") == "<p>*not* <code>a\\b</code></p>");
  CHECK(html("an unclosed ` tick and [bracket") == "<p>an unclosed ` tick and [bracket</p>");
}

TEST_CASE("markdown: links") {
  CHECK(html("[a `b` c](d.md#e)") == "<p><a href=\"d.md#e\">a <code>b</code> c</a></p>");
  CHECK(html("`f[i](x)` and g[i](const T& x)") ==
        "<p><code>f[i](x)</code> and g[i](const T&amp; x)</p>");
  CHECK(html("[x](\"onclick=1)") == "<p>[x](&quot;onclick=1)</p>");
  MarkdownOptions options;
  options.link = [](std::string_view target) { return "to-" + std::string(target); };
  options.title = [](std::string_view) { return "The page"; };
  options.code_link = [](std::string_view code) { return code == "f()" ? "api.html#f" : ""; };
  CHECK(html("[p.md](p.md#x), [words](p.md), `f()`, `g`", options) ==
        "<p><a href=\"to-p.md#x\">The page</a>, <a href=\"to-p.md\">words</a>, "
        "<a href=\"api.html#f\"><code>f()</code></a>, <code>g</code></p>");
}

TEST_CASE("markdown: headings have anchors, and sections their words") {
  MarkdownPage page =
      convert_markdown("# What `x[i]` is\n\nfirst\n\n## A, B & C\nsecond `code`\n\n## A, B & C\n");
  CHECK(page.title == "What x[i] is");
  REQUIRE(page.sections.size() == 4);
  CHECK(page.sections[1].anchor == "what-xi-is");
  CHECK(page.sections[1].words == "first ");
  CHECK(page.sections[2].anchor == "a-b--c");
  CHECK(page.sections[2].title == "A, B & C");
  CHECK(page.sections[2].words == "second code ");
  CHECK(page.sections[3].anchor == "a-b--c-1");
  CHECK(page.html.find("<h2 id=\"a-b--c-1\">A, B &amp; C") != std::string::npos);
}

TEST_CASE("markdown: lists, also in lists") {
  CHECK(html("- a\n- b\n  goes on\n- c") == "<ul><li>a</li><li>bgoes on</li><li>c</li></ul>");
  CHECK(html("- a\n  - b\n    - c\n- d") ==
        "<ul><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li><li>d</li></ul>");
  CHECK(html("2. a\n3. b\n\ntext") == "<ol start=\"2\"><li>a</li><li>b</li></ol><p>text</p>");
  CHECK(html("- a\n\n- b") == "<ul><li><p>a</p></li><li><p>b</p></li></ul>");
  CHECK(html("1. a\n\n   more\n2. b") == "<ol><li><p>a</p><p>more</p></li><li><p>b</p></li></ol>");
  CHECK(html("- a\n  ```\n  x < y\n  ```\n- b") ==
        "<ul><li>a<pre><code>x &lt; y</code></pre></li><li>b</li></ul>");
  CHECK(html("text\n- a") == "<p>text</p><ul><li>a</li></ul>");
  CHECK(html("in 1995\n7. is no item") == "<p>in 19957. is no item</p>");
}

TEST_CASE("markdown: tables") {
  CHECK(html("| a | b |\n|---|---|\n| `x | y` | c \\| d |\n| one |\n| *3* | 4 |\n\nafter") ==
        "<div class=\"table\"><table><tr><th>a</th><th>b</th></tr>"
        "<tr><td><code>x | y</code></td><td>c | d</td></tr><tr><td>one</td><td></td></tr>"
        "<tr><td><em>3</em></td><td>4</td></tr></table></div><p>after</p>");
  CHECK(html("a | b, but no rule below") == "<p>a | b, but no rule below</p>");
}

TEST_CASE("markdown: code") {
  CHECK(html("```cpp\nif (a < b)\n# no heading\n```") ==
        "<pre><code>if (a &lt; b)# no heading</code></pre>");
  CHECK(html("    indented <b>\n\n    more\n\ntext") ==
        "<pre><code>indented &lt;b&gt;more</code></pre><p>text</p>");
  CHECK(html("```\nnever closed") == "<pre><code>never closed</code></pre>");
  CHECK(html("> said\n> so\n\n---") == "<blockquote><p>saidso</p></blockquote><hr>");
}

TEST_CASE("highlight: keeps the text, and marks it") {
  CHECK(highlight("cpp", "return f(1.5f, \"a\\\"<\");  // x < y") ==
        "<span class=\"k\">return</span> f(<span class=\"n\">1.5f</span>, "
        "<span class=\"s\">&quot;a\\&quot;&lt;&quot;</span>);  "
        "<span class=\"c\">// x &lt; y</span>");
  CHECK(highlight("cpp", "#include <a>\nTensor MOTE_X") ==
        "<span class=\"d\">#include &lt;a&gt;</span>\n<span class=\"t\">Tensor</span> "
        "<span class=\"d\">MOTE_X</span>");
  CHECK(highlight("cpp", "/* never closed") == "<span class=\"c\">/* never closed</span>");
  CHECK(highlight("", "run this  # and see #1") ==
        "run this  <span class=\"c\"># and see #1</span>");
}

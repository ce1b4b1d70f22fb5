// How the pages of `mote docs` look, and their search.
#include "cli/site.h"

namespace mote {

const char* const site_style = R"(:root {
  color-scheme: light dark;
  --back: #ffffff; --side: #f6f7f9; --text: #1c2128; --soft: #5c6570; --line: #dfe3e8;
  --link: #0b62c4; --mark: #fff1b8; --code: #f4f5f7; --accent: #0b62c4;
  --c: #66717d; --s: #0f6b3a; --n: #8a4b00; --k: #8b2fa8; --t: #0b5c96; --d: #9a3412;
}
@media (prefers-color-scheme: dark) {
  :root {
    --back: #14171c; --side: #1a1e25; --text: #dde2e8; --soft: #98a2ae; --line: #2c323b;
    --link: #7ab8ff; --mark: #54480f; --code: #1d222a; --accent: #7ab8ff;
    --c: #8b96a3; --s: #86d29b; --n: #e6b673; --k: #d49bf0; --t: #7cc4f0; --d: #f0a07c;
  }
}
* { box-sizing: border-box; }
html { scroll-padding-top: 4rem; -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--back); color: var(--text);
  font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
a { color: var(--link); text-decoration: none; }
a:hover { text-decoration: underline; }
code, pre { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono",
  monospace; }
code { font-size: 0.86em; background: var(--code); border-radius: 4px; padding: 0.1em 0.3em;
  overflow-wrap: break-word; }
pre { background: var(--code); border: 1px solid var(--line); border-radius: 8px;
  padding: 0.8rem 1rem;
  overflow-x: auto; line-height: 1.5; font-size: 0.85rem; }
pre code { background: none; padding: 0; font-size: inherit; white-space: pre; }
h1, h2, h3, h4 { line-height: 1.25; margin: 2rem 0 0.8rem; }
h1 { font-size: 2rem; margin-top: 0.5rem; }
h2 { font-size: 1.4rem; border-bottom: 1px solid var(--line); padding-bottom: 0.3rem; }
h3 { font-size: 1.1rem; }
.anchor { color: var(--soft); margin-left: 0.4rem; font-weight: 400; opacity: 0; }
:is(h1, h2, h3, h4):hover .anchor, .anchor:focus { opacity: 1; }
.table { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; min-width: 50%; font-size: 0.93rem; }
th, td { border: 1px solid var(--line); padding: 0.4rem 0.7rem; text-align: left;
  vertical-align: top; }
th { background: var(--side); }
blockquote { margin: 1rem 0; padding-left: 1rem; border-left: 3px solid var(--line);
  color: var(--soft); }
hr { border: 0; border-top: 1px solid var(--line); margin: 2rem 0; }
header { position: sticky; top: 0; z-index: 2; display: flex; gap: 1rem; align-items: center;
  height: 3.4rem; padding: 0 1.2rem; background: var(--back);
  border-bottom: 1px solid var(--line); }
header .home { font-weight: 700; font-size: 1.15rem; color: var(--text); }
#search-box { margin-left: auto; width: min(24rem, 60vw); padding: 0.4rem 0.8rem; font: inherit;
  font-size: 0.95rem; color: var(--text); background: var(--side); border: 1px solid var(--line);
  border-radius: 8px; }
#search-results { position: absolute; right: 1.2rem; top: 3.2rem;
  width: min(40rem, calc(100vw - 2.4rem));
  max-height: 75vh; overflow-y: auto; margin: 0; padding: 0.4rem; list-style: none;
  background: var(--back); border: 1px solid var(--line); border-radius: 8px;
  box-shadow: 0 8px 30px rgba(0, 0, 0, 0.25); }
#search-results:empty { display: none; }
#search-results a { display: block; padding: 0.4rem 0.6rem; border-radius: 6px;
  color: var(--text); }
#search-results a:hover, #search-results a.at { background: var(--side); text-decoration: none; }
#search-results b { color: var(--link); }
#search-results small { color: var(--soft); display: block; white-space: nowrap; overflow: hidden;
  text-overflow: ellipsis; }
.frame { display: grid; grid-template-columns: 16rem minmax(0, 1fr); max-width: 90rem;
  margin: 0 auto; }
nav { background: var(--side); border-right: 1px solid var(--line); padding: 1rem 1.2rem 3rem;
  font-size: 0.93rem; position: sticky; top: 3.4rem; height: calc(100vh - 3.4rem);
  overflow-y: auto; }
nav summary { display: none; }
nav h2 { font-size: 0.78rem; text-transform: uppercase; letter-spacing: 0.06em; color: var(--soft);
  border: 0; margin: 1.2rem 0 0.3rem; padding: 0; }
nav ul, .contents ul { list-style: none; margin: 0; padding: 0; }
nav li a { display: block; padding: 0.15rem 0; color: var(--text); }
nav li a.here { color: var(--accent); font-weight: 600; }
main { padding: 1.5rem 2.5rem 5rem; min-width: 0; display: grid;
  grid-template-columns: minmax(0, 48rem) 14rem; column-gap: 3rem; justify-content: center; }
main.wide { grid-template-columns: minmax(0, 64rem); }
.contents { position: sticky; top: 4.5rem; align-self: start; font-size: 0.86rem;
  padding-top: 0.6rem;
  max-height: calc(100vh - 6rem); overflow-y: auto; }
.contents a { color: var(--soft); display: block; padding: 0.12rem 0; }
.contents .level3 { padding-left: 0.9rem; }
.declarations { margin: 0.3rem 0 0.9rem; }
.declarations > div { padding: 0.12rem 0.4rem 0.12rem 2rem; text-indent: -2rem; }
.declarations code { background: none; padding: 0; }
.declarations b { color: var(--text); }
.declarations .type { font-size: 1.12rem; padding-top: 0.6rem; }
.members { border-left: 3px solid var(--line); margin: 0 0 1.4rem 0.2rem; padding-left: 1rem; }
article p + .declarations { margin-top: -0.6rem; }
.declarations > div:target, tr:target, .source span:target { background: var(--mark); }
.declarations .line { float: right; text-indent: 0; font-size: 0.75rem; color: var(--soft);
  margin-left: 1rem; }
dt { font-weight: 600; }
dd { margin: 0 0 0.5rem 1.5rem; }
.also { color: var(--soft); font-size: 0.9rem; }
.index td:first-child { white-space: nowrap; }
.letters a { display: inline-block; padding: 0 0.35rem; }
.source { counter-reset: line; }
.source .row::before { counter-increment: line; content: counter(line); display: inline-block;
  width: 2.6rem; margin-right: 1rem; text-align: right; color: var(--soft); opacity: 0.7; }
.c { color: var(--c); } .s { color: var(--s); } .n { color: var(--n); }
.k { color: var(--k); } .t { color: var(--t); } .d { color: var(--d); }
@media (max-width: 75rem) {
  main { grid-template-columns: minmax(0, 50rem); }
  .contents { display: none; }
}
@media (max-width: 52rem) {
  .frame { display: block; }
  nav { position: static; height: auto; border: 0; border-bottom: 1px solid var(--line);
    padding: 0.5rem 1.2rem; }
  nav summary { display: block; cursor: pointer; padding: 0.3rem 0; font-weight: 600; }
  nav li a { padding: 0.4rem 0; }
  main { display: block; padding: 1rem 1.2rem 4rem; }
  h1 { font-size: 1.6rem; }
  .index td:first-child { white-space: normal; }
}
@media print { header, nav, .contents { display: none; } .frame, main { display: block; } }
)";

// The index is a script of its own, because a page that was opened as a file may not fetch one.
// Every word must begin a word of the entry. Names count more than titles, and those more than
// text; among equals the order of the pages decides.
const char* const site_script = R"(const box = document.getElementById('search-box');
const list = document.getElementById('search-results');
let at = -1;
const words = text => text.toLowerCase().match(/[a-z0-9_]+/g) || [];
function score(entry, asked) {
  const [title, , place, text] = entry;
  const name = title.toLowerCase(), last = name.split(/::|\./).pop();
  const body = ' ' + words(title + ' ' + place + ' ' + text).join(' ');
  let sum = 0;
  for (const w of asked) {
    const stem = w.length > 5 ? w.slice(0, -1) : w;  // resume finds resuming
    const i = body.indexOf(' ' + stem), j = name.indexOf(stem);
    if (i < 0 && j < 0) return 0;
    sum += last === w || name === w ? 40 : j === 0 || last.startsWith(w) ? 20 : j > 0 ? 8 : 1;
  }
  return sum;
}
function show() {
  list.textContent = '';
  at = -1;
  const asked = words(box.value);
  if (!asked.length) return;
  const found = search_index.map(e => [score(e, asked), e]).filter(f => f[0] > 0);
  found.sort((a, b) => b[0] - a[0]);
  for (const [, [title, href, place, text]] of found.slice(0, 30)) {
    const a = document.createElement('a'), b = document.createElement('b');
    const small = document.createElement('small');
    b.textContent = title;
    const i = text.toLowerCase().indexOf(asked[0]);
    small.textContent = place + (text ? ' · ' + text.slice(Math.max(0, i - 30), i + 120) : '');
    a.href = href;
    a.append(b, small);
    a.onclick = () => { box.value = ''; show(); };
    const li = document.createElement('li');
    li.append(a);
    list.append(li);
  }
  if (!found.length) list.innerHTML = '<li><small>Nothing found</small></li>';
}
box.addEventListener('input', show);
document.addEventListener('keydown', e => {
  if (e.key === '/' && document.activeElement !== box) { e.preventDefault(); box.focus(); return; }
  const links = list.querySelectorAll('a');
  if (e.key === 'Escape') { box.value = ''; show(); box.blur(); }
  if (document.activeElement !== box || !links.length) return;
  if (e.key === 'ArrowDown' || e.key === 'ArrowUp') {
    e.preventDefault();
    at = (at + (e.key === 'ArrowDown' ? 1 : links.length - 1 + (at < 0))) % links.length;
    links.forEach((a, i) => a.classList.toggle('at', i === at));
    links[at].scrollIntoView({ block: 'nearest' });
  }
  if (e.key === 'Enter') links[Math.max(0, at)].click();
});
const menu = document.querySelector('nav details');
if (matchMedia('(max-width: 52rem)').matches) menu.open = false;
const here = document.querySelector('nav .here');
if (here && menu.open) here.scrollIntoView({ block: 'center' });
)";

}  // namespace mote

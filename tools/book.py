#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""book.py OUT.html: writes the course (docs/notes/) as one HTML file that needs no network and no other file.

pandoc converts each page, its formulas to MathML; pictures are embedded and follow the light or dark theme of the
reader.  Links between pages become links inside the book; a link to a file of the tree becomes its path.  An error: a
formula that pandoc cannot convert, a link or picture without a target.  Exit 77: pandoc is missing.
"""
import argparse
import base64
import html
import os
import re
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOTES = os.path.join(TOP, "docs/notes")
QUAD = '<mspace width="2.0em">'  # \qquad, which separates the formulas of a line
STYLE = """
:root { color-scheme: light dark; --page: #fbfaf6; --text: #1b1c20; --soft: #565860; --line: #dfdcd3; --code: #f1efe8;
  --link: #2b5f9e; --shade: #0004; }
@media (prefers-color-scheme: dark) { :root { --page: #101319; --text: #e9e7e1; --soft: #a6a9b1; --line: #2a2f39;
  --code: #191e27; --link: #8bbce9; --shade: #fff5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 17px/1.55 Georgia, "DejaVu Serif", serif; }
a { color: var(--link); text-decoration: none; }
a:hover, a:focus { text-decoration: underline; }
nav { position: fixed; top: 0; bottom: 0; left: 0; width: 270px; padding: 22px; overflow: auto; font-size: 14px;
  border-right: 1px solid var(--line); }
nav ol { list-style: none; margin: 12px 0 0; padding: 0; }
nav li { margin: 5px 0; }
main { margin-left: 270px; padding: 8px 40px 80px; }
section { max-width: 780px; margin: 0 auto; padding: 30px 0 40px; border-bottom: 1px solid var(--line); }
h1, h2 { line-height: 1.2; font-weight: normal; }
h1 { font-size: 34px; }
h2 { font-size: 22px; margin-top: 34px; }
pre { padding: 10px 14px; overflow-x: auto; font-size: 13px; line-height: 1.35; }
pre.command { border-left: 3px solid var(--link); margin-bottom: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
pre.command + pre { margin-top: 0; }
p { overflow-wrap: anywhere; overflow-x: auto; overflow-y: hidden; }
math { overflow-wrap: normal; }
.whole { white-space: nowrap; }
code { font-family: "DejaVu Sans Mono", Consolas, monospace; font-size: .85em; }
pre code { font-size: inherit; }
.table, .formula { display: block; overflow-x: auto; overflow-y: hidden; }
.formula { display: flex; flex-wrap: wrap; justify-content: safe center; column-gap: 36px; }
/* A shadow at an edge: there is more to scroll to. */
.table, .formula, pre { background: linear-gradient(to right, var(--under) 40%, transparent) left / 40px 100% local,
  linear-gradient(to left, var(--under) 40%, transparent) right / 40px 100% local,
  radial-gradient(farthest-side at 0 50%, var(--shade), transparent) left / 14px 100%,
  radial-gradient(farthest-side at 100% 50%, var(--shade), transparent) right / 14px 100%, var(--under);
  background-repeat: no-repeat; --under: var(--page); }
pre { --under: var(--code); }
table { border-collapse: collapse; font-size: 15px; margin: 14px 0; }
th, td { border-bottom: 1px solid var(--line); padding: 5px 14px 5px 0; text-align: left; vertical-align: top; }
img { display: block; max-width: 100%; height: auto; margin: 18px auto; }
math[display=block] { margin: 14px 0; font-size: 1.1em; }
math[display=block] mtable { math-style: normal; }
mtd { padding-top: .35em; padding-bottom: .35em; }
mtd[columnalign=left] { text-align: left; }
mtd[columnalign=right] { text-align: right; }
.turn { display: flex; justify-content: space-between; margin-top: 30px; font-size: 15px; color: var(--soft); }
@media (max-width: 900px) {
  nav { position: static; width: auto; border-right: 0; border-bottom: 1px solid var(--line); }
  main { margin: 0; padding: 0 16px 40px; }
}
@media (max-width: 480px) { table { font-size: 14px; } th, td { padding-right: 8px; } }
@media print { nav, .turn { display: none; } main { margin: 0; } section { break-before: page; border: 0; }
  pre { white-space: pre-wrap; } }
"""


def pages():
    """Returns the pages in the order in which README.md names them; README.md itself is the first."""
    with open(os.path.join(NOTES, "README.md"), encoding="utf-8") as f:
        named = re.findall(r"\]\(([\w-]+\.md)\)", f.read())
    return ["README.md", *dict.fromkeys(named)]


def picture(page, match):
    path = os.path.join(NOTES, match.group(1))
    if not os.path.exists(path):
        sys.exit(f"{page}: there is no picture {match.group(1)}")
    with open(path, "rb") as f:
        return f'src="data:image/svg+xml;base64,{base64.b64encode(f.read()).decode()}"'


def link(page, known, match):
    """Returns the link of a page as a link of the book, or as a path if its target is no page of the book."""
    target, text = html.unescape(match.group(1)), match.group(2)
    if target in known:
        return f'<a href="#{target[:-3]}">{text}</a>'
    if re.match(r"https?:", target):
        return f"{text} ({target})"
    path = os.path.normpath(os.path.join(NOTES, target.split("#")[0]))
    if not os.path.exists(path):
        sys.exit(f"{page}: link to {target}, which does not exist")
    path = os.path.relpath(path, TOP)
    return f"<code>{path}</code>" if os.path.basename(path) in text else f"{text} (<code>{path}</code>)"


def set_formulas(body):
    """Corrects the MathML of pandoc, and lets a line with several formulas break between them."""
    # an upright name of several letters is one identifier: as an operator it gets the spaces of a relation
    body = re.sub(r'<mstyle mathvariant="normal">((?:<mi>\w</mi>){2,})</mstyle>',
                  lambda m: "<mi>" + re.sub("</?mi>", "", m.group(1)) + "</mi>", body)
    functions = "arg|cos|exp|ln|log|max|min|sin|tanh"
    body = re.sub(rf"(?<!<msub>)(?<!<munder>)(<mo>(?:{functions})</mo>)(?!<mrow><mo [^>]*>\(|</mrow>)",
                  r'\1<mspace width="0.167em"></mspace>', body)
    body = re.sub(r"<mo>([A-Za-z]{2,})</mo>", r"<mi>\1</mi>", body)
    # punctuation stays with the formula before it
    body = re.sub(r'(<math display="inline"(?:(?!</math>).)*</math>)([.,;:!?)\]]+)', r'<span class="whole">\1\2</span>', body,
                  flags=re.S)

    def display(match):
        formula = match.group(0)
        whole = re.fullmatch(r"(<math [^>]*><semantics><mrow>)(.*)(</mrow></semantics></math>)", formula, re.S)
        if whole and "<mtable" not in formula:
            begin, inner, end = whole.groups()
            depth, starts = 0, [0]
            for tag in re.finditer(r"<(/?)m[^>]*>", inner):
                if not depth and tag.group(0) == QUAD:
                    starts.append(tag.start())
                depth += -1 if tag.group(1) else 1
            parts = [inner[i:j].removeprefix(QUAD + "</mspace>") for i, j in zip(starts, [*starts[1:], len(inner)])]
            formula = "".join(begin + part + end for part in parts)
        return f'<span class="formula">{formula}</span>'

    return re.sub(r'<math display="block".*?</math>', display, body, flags=re.S)


def convert(page, known):
    with open(os.path.join(NOTES, page), encoding="utf-8") as f:
        text = f.read()
    text = text.replace("\n[Contents](README.md) · [Glossary](glossary.md)\n", "")  # the book has them on every page
    text = re.sub(r"^```sh quiet$", "```sh", text, flags=re.M)
    text = re.sub(r"^```text .*$", "```text", text, flags=re.M)
    command = ["pandoc", "--mathml", "--no-highlight", "--wrap=none", "-f", "gfm+tex_math_dollars", "-t", "html"]
    done = subprocess.run(command, input=text, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode or done.stderr:
        sys.exit(f"{page}: {done.stderr.strip()}")
    body = done.stdout
    body = re.sub(r'<(h\d) id="[^"]*">', r"<\1>", body)
    body = body.replace('<pre class="sh">', '<pre class="command">').replace('<pre class="text">', "<pre>")
    body = body.replace("<table>", '<div class="table"><table>').replace("</table>", "</table></div>")
    body = re.sub(r'<annotation encoding="application/x-tex">.*?</annotation>', "", body, flags=re.S)
    body = set_formulas(body)
    body = re.sub(r'src="([^"]+)"', lambda m: picture(page, m), body)
    return re.sub(r'<a href="([^"]+)">(.*?)</a>', lambda m: link(page, known, m), body, flags=re.S)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", metavar="OUT.html", help="the file that is written")
    out = parser.parse_args().out
    if not shutil.which("pandoc"):
        print("skipped: pandoc is missing (Debian: pandoc)")
        return 77
    names = pages()
    bodies = {name: convert(name, names) for name in names}
    titles = {n: re.search(r"<h1>(.*?)</h1>", bodies[n], re.S).group(1) for n in names}
    contents = "".join(f'<li><a href="#{n[:-3]}">{titles[n]}</a></li>\n' for n in names)
    sections = ""
    for i, name in enumerate(names):
        before = f'<a href="#{names[i - 1][:-3]}">← {titles[names[i - 1]]}</a>' if i else ""
        after = f'<a href="#{names[i + 1][:-3]}">{titles[names[i + 1]]} →</a>' if i + 1 < len(names) else ""
        sections += (f'<section id="{name[:-3]}">\n{bodies[name]}\n<p class="turn"><span>{before}</span>'
                     f"<span>{after}</span></p>\n</section>\n")
    os.makedirs(os.path.dirname(os.path.abspath(out)), exist_ok=True)
    with open(out, "w", encoding="utf-8") as f:
        f.write('<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
                '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
                f"<title>{titles[names[0]]}</title>\n<style>{STYLE}</style>\n<nav><ol>\n{contents}</ol></nav>\n"
                f"<main>\n{sections}</main>\n</html>\n")
    print(f"{out}: {len(names)} pages, {os.path.getsize(out) / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: MIT
# pictures.py: tests in a real browser that no text of a picture leaves the picture or meets another text.
#   pictures.py MAKE_PICTURES FOLDER [PICTURE...]
# Measures the committed pictures (docs/) and the pictures of make_pictures with the first family of fonts that is installed
# and with one of the others in turn, and every eighth with the first family in the dark theme too: a theme changes colours,
# not fonts. QKV_SLOW=1 (make long), or pictures that are named: with each family, all in the dark theme. QKV_FONTS names a
# folder with more fonts. Exit 77: Chromium is not installed.
import glob, json, os, subprocess, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chrome

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# The boxes of all texts, each from the top of capitals to below the baseline, as four corners; then which of them leave
# the picture, and which meet: two rotated rectangles meet unless a side of one of them separates them.
MEASURE = r"""(() => {
const svg = document.querySelector("svg"), view = svg.viewBox.baseVal, texts = [];
const toPicture = svg.getScreenCTM().inverse();
for (const t of svg.querySelectorAll("text")) {
  if (!t.textContent.trim()) continue;
  const box = t.getBBox(), m = toPicture.multiply(t.getScreenCTM()), size = parseFloat(getComputedStyle(t).fontSize);
  const base = t.y.baseVal.length ? t.y.baseVal[0].value : box.y + box.height;
  const at = (x, y) => ({ x: m.a * x + m.c * y + m.e, y: m.b * x + m.d * y + m.f });
  const a = box.x, b = box.x + box.width, top = base - .72 * size, low = base + .2 * size;
  texts.push({ text: t.textContent, corners: [at(a, top), at(b, top), at(b, low), at(a, low)] });
}
const wrong = [];
for (const t of texts) {
  t.x0 = Math.min(...t.corners.map(c => c.x)); t.x1 = Math.max(...t.corners.map(c => c.x));
  t.y0 = Math.min(...t.corners.map(c => c.y)); t.y1 = Math.max(...t.corners.map(c => c.y));
  const out = Math.max(view.x - t.x0, t.x1 - view.x - view.width, view.y - t.y0, t.y1 - view.y - view.height);
  if (out > .5) wrong.push(`leaves by ${out.toFixed(1)}: ${t.text}`);
}
const apart = (p, q) => {
  for (let i = 0; i < 4; i++) {
    const a = p[i], b = p[(i + 1) % 4], nx = a.y - b.y, ny = b.x - a.x, n = Math.hypot(nx, ny) || 1;
    const on = c => (c.x * nx + c.y * ny) / n;
    const u = p.map(on), v = q.map(on);
    if (Math.max(...u) <= Math.min(...v) + .5 || Math.max(...v) <= Math.min(...u) + .5) return true;
  }
  return false;
};
texts.sort((a, b) => a.x0 - b.x0);
for (let i = 0; i < texts.length; i++)
  for (let j = i + 1; j < texts.length && texts[j].x0 < texts[i].x1; j++) {
    const a = texts[i], b = texts[j];
    if (a.y0 < b.y1 && b.y0 < a.y1 && !apart(a.corners, b.corners) && !apart(b.corners, a.corners))
      wrong.push(`meet: ${a.text} | ${b.text}`);
  }
return { texts: texts.length, wrong };
})()"""

FAMILIES = [("DejaVu", "DejaVuSans.ttf", "DejaVu Sans", "DejaVu Serif", "DejaVu Sans Mono"),
            ("Liberation", "LiberationSans-Regular.ttf", "Liberation Sans", "Liberation Serif", "Liberation Mono"),
            ("Noto", "NotoSans-Regular.ttf", "Noto Sans", "Noto Serif", "Noto Sans Mono")]


def font_folder(file):
    for top in [os.environ.get("QKV_FONTS"), "/usr/share/fonts", "/usr/local/share/fonts"]:
        for folder, _, files in sorted(os.walk(top or "/nowhere")):
            if file in files:
                return folder
    return None


def only_fonts(folder, family):
    """Writes a fontconfig file with the fonts of one family only. Returns its path, or None: it is not installed."""
    name, file, sans, serif, mono = family
    fonts = font_folder(file)
    if not fonts:
        return None
    alias = "".join(f'<match target="pattern"><test name="family"><string>{a}</string></test><edit name="family" '
                    f'mode="prepend" binding="strong"><string>{b}</string></edit></match>'
                    for a, b in (("sans-serif", sans), ("sans", sans), ("system-ui", sans), ("serif", serif), ("monospace", mono)))
    path = os.path.join(os.path.abspath(folder), name + ".conf")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f'<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><dir>{fonts}</dir>'
                f'<cachedir>{os.path.abspath(folder)}/cache</cachedir>{alias}<match target="pattern"><edit name="family" mode="append">'
                f'<string>{sans}</string></edit></match></fontconfig>')
    return path


def main():
    if len(sys.argv) < 3:
        print("usage: pictures.py MAKE_PICTURES FOLDER [PICTURE...]")
        return 2
    path = chrome.find()
    if not path:
        print("skipped: no Chromium or Chrome that runs (QKV_CHROME names one)")
        return 77
    folder, pictures = sys.argv[2], sys.argv[3:]
    os.makedirs(folder, exist_ok=True)
    if not pictures:
        subprocess.run([sys.argv[1], folder], check=True)
        pictures = sorted(glob.glob(os.path.join(TOP, "docs/**/*.svg"), recursive=True))
        pictures += sorted(glob.glob(os.path.join(folder, "*.svg")))
    failed = measured = 0
    slow = bool(os.environ.get("QKV_SLOW") or sys.argv[3:])
    installed = []
    for family in FAMILIES:
        config = only_fonts(folder, family)
        if config:
            installed.append((family, config))
        else:
            print("skipped: the fonts", family[0], "are not installed")
    for family, config in installed:
        measured += 1
        os.environ["FONTCONFIG_FILE"] = config
        c, texts = chrome.Chrome(path), 0
        try:
            c.size(1500, 900)
            c.js("document.body.style.visibility = 'hidden'")  # texts that are not painted have the same boxes
            chosen, now = pictures, None
            if measured > 1 and not slow:
                chosen = pictures[measured - 2::len(installed) - 1]
            for n, picture in enumerate(chosen):
                with open(picture, encoding="utf-8") as f:
                    text = f.read()
                for theme in ("light", "dark")[:2 if measured == 1 and (slow or n % 8 == 0) else 1]:
                    if theme != now:
                        c.media(prefers_color_scheme=theme)
                        now = theme
                    found = c.js("document.body.innerHTML = %s;" % json.dumps(text) + MEASURE)
                    texts += found["texts"]
                    for wrong in sorted(set(found["wrong"])):
                        failed += 1
                        if failed <= 4000:
                            print("FAIL", family[0], theme, os.path.basename(picture) + ":", wrong, flush=True)
        finally:
            c.close()
        print("%s: %d pictures, %d texts" % (family[0], len(chosen), texts), flush=True)
    if not measured:
        print("skipped: none of the font families is installed")
        return 77
    print(failed, "failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

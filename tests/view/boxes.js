// SPDX-License-Identifier: MIT
// boxes.js: finds texts of a page that leave their container or the window, or meet another text. boxes.py runs it
// before the scripts of the page, because texts on a canvas are recorded when they are drawn.
(() => {
    const drawn = new WeakMap(); // the texts of each canvas
    const proto = CanvasRenderingContext2D.prototype, { fillText, clearRect } = proto;
    const size = Object.getOwnPropertyDescriptor(HTMLCanvasElement.prototype, "width");
    Object.defineProperty(HTMLCanvasElement.prototype, "width", {
        ...size, set(n) { drawn.delete(this); size.set.call(this, n); }
    });
    proto.clearRect = function(x, y, w, h) {
        if (w * h > 400) drawn.delete(this.canvas);
        return clearRect.call(this, x, y, w, h);
    };
    proto.fillText = function(text, x, y, most = 1e9) {
        const m = this.measureText(text), w = Math.min(m.width, most), at = this.getTransform();
        const share = { right: 1, end: 1, center: .5 }[this.textAlign] ?? 0;
        const from = x - share * w;
        const corners = [[from, y - m.actualBoundingBoxAscent], [from + w, y + m.actualBoundingBoxDescent],
            [from, y + m.actualBoundingBoxDescent], [from + w, y - m.actualBoundingBoxAscent]];
        const points = corners.map(([a, b]) => new DOMPoint(a, b).matrixTransform(at));
        const xs = points.map(p => p.x), ys = points.map(p => p.y);
        const list = drawn.get(this.canvas) ?? [];
        if (String(text).trim())
            list.push({ text, turned: Math.abs(at.b) > .01, x: Math.min(...xs), y: Math.min(...ys), r: Math.max(...xs),
                b: Math.max(...ys) });
        drawn.set(this.canvas, list);
        return most < 1e9 ? fillText.call(this, text, x, y, most) : fillText.call(this, text, x, y);
    };

    // The visible part of a box: what its scrollers and covers show. `cut`: a cover without a scroller hides some.
    function clipped(box, node, ellipsis) {
        let { x, y, r, b } = box, cut = "";
        const whole = box;
        for (let n = node; n && n !== document.documentElement; n = n.parentElement) {
            const s = getComputedStyle(n);
            if (s.position === "fixed") break;
            if (s.overflowX === "visible" && s.overflowY === "visible") continue;
            if (n instanceof SVGElement && !(n instanceof SVGSVGElement)) continue;
            const c = n.getBoundingClientRect();
            const hides = o => o === "hidden" || o === "clip";
            if (s.textOverflow === "ellipsis") ellipsis = true;
            if (n.clientWidth < 3 || n.clientHeight < 3) return null; // only for screen readers
            const beyond = whole.x < c.left - 1.5 || whole.r > c.right + 1.5;
            if (hides(s.overflowX) && !ellipsis && beyond && r > c.left && x < c.right)
                cut = n.id || n.getAttribute("class") || n.tagName;
            x = Math.max(x, c.left);
            r = Math.min(r, c.right);
            y = Math.max(y, c.top);
            b = Math.min(b, c.bottom);
        }
        return r - x > 1 && b - y > 2 ? { x, y, r, b, cut } : null;
    }
    function textBoxes() {
        const out = [], range = document.createRange();
        const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        for (let node = walker.nextNode(); node; node = walker.nextNode()) {
            const text = node.nodeValue.trim(), up = node.parentElement;
            if (!text || /^(SCRIPT|STYLE|NOSCRIPT|TITLE|TEXTAREA|OPTION|title|desc|style)$/.test(up.tagName)) continue;
            if (!up.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
            if (up.closest(".quiet, [hidden]")) continue;
            const s = getComputedStyle(up), size = parseFloat(s.fontSize);
            range.selectNodeContents(node);
            const holder = (n => {
                while (n && getComputedStyle(n).display.startsWith("inline") && !(n instanceof SVGElement) &&
                    n.tagName !== "BUTTON") n = n.parentElement;
                return n;
            })(up);
            for (const q of range.getClientRects()) {
                if (q.width < 1 || !q.height) continue;
                const mid = (q.top + q.bottom) / 2;
                const half = up instanceof SVGElement ? q.height / 2 * .66 : Math.min(q.height, size) * .36;
                const box = { x: q.left, y: mid - half, r: q.right, b: mid + half };
                const seen = clipped(box, up, false);
                if (!seen) continue;
                const { cut } = seen, at = up.id || up.getAttribute("class") || up.tagName;
                const turned = up instanceof SVGGraphicsElement && Math.abs(up.getScreenCTM().b) > .01;
                const issue = { text, turned, at, ...seen, up, why: "" };
                if (cut) issue.why = "cut by " + cut;
                else if (up instanceof SVGElement) {
                    const c = up.ownerSVGElement.getBoundingClientRect();
                    if (q.left < c.left - 1.5 || q.right > c.right + 1.5 || mid < c.top || mid > c.bottom)
                        issue.why = "leaves the drawing";
                } else if (holder && holder !== document.body && getComputedStyle(holder).textOverflow !== "ellipsis") {
                    const c = holder.getBoundingClientRect(), o = getComputedStyle(holder).overflowX;
                    if (o === "visible" && (q.left < c.left - 1.5 || q.right > c.right + 1.5)) issue.why = "leaves " +
                        (holder.id || holder.getAttribute("class") || holder.tagName);
                }
                out.push(issue);
            }
        }
        for (const canvas of document.querySelectorAll("canvas")) {
            const list = drawn.get(canvas);
            const visible = canvas.checkVisibility({ opacityProperty: true, visibilityProperty: true });
            if (!list?.length || !visible || canvas.closest("[hidden]")) continue;
            const c = canvas.getBoundingClientRect(), sx = c.width / canvas.width, sy = c.height / canvas.height;
            const seen = new Set();
            for (const t of list) {
                const box = { x: c.left + t.x * sx, y: c.top + t.y * sy, r: c.left + t.r * sx, b: c.top + t.b * sy };
                const key = [t.text, Math.round(box.x), Math.round(box.y)].join();
                if (seen.has(key)) continue;
                seen.add(key);
                const inside = clipped(box, canvas, false);
                if (!inside) continue;
                const across = box.x < c.left - 1.5 || box.r > c.right + 1.5;
                const up = !canvas.closest("#stage") && (box.y < c.top - 1.5 || box.b > c.bottom + 1.5); // it scrolls
                const why = across || up ? "leaves the canvas" : "";
                out.push({ text: t.text, turned: t.turned, at: "canvas", ...inside, up: canvas, why });
            }
        }
        return out;
    }
    const NAMES_KEY = /\b([Kk]eys? [A-Z]\b|[Pp]ress|[Cc]lick|[Dd]rag)/;
    // Returns the faults: { text, at, why }, each reason once per place.
    globalThis.faultsOfBoxes = () => {
        const all = textBoxes(), wide = document.documentElement.clientWidth, faults = [];
        const fault = (t, why) => faults.push(`${String(t.text).slice(0, 40)} [${t.at}] ${why}`);
        const whole = document.scrollingElement.scrollWidth;
        if (whole > wide + 1) faults.push(`the page is ${whole} wide`);
        const chart = globalThis.qkv ? null : document.querySelector("#stage"); // drawn for the width of the screen
        if (chart && chart.scrollWidth > chart.clientWidth + 1)
            faults.push(`the chart is ${chart.scrollWidth} wide in ${chart.clientWidth}`);
        for (const t of all) {
            if (t.why) fault(t, t.why);
            if (t.x < -1.5 || t.r > wide + 1.5) fault(t, "leaves the window");
            // paper has no keys to press
            if (document.documentElement.dataset.sheet && NAMES_KEY.test(t.text)) fault(t, "names a key on paper");
        }
        const fixed = n => !!n.closest("#note, #finder, dialog");
        all.sort((p, q) => p.y - q.y);
        for (let i = 0; i < all.length; i++)
            for (let k = i + 1; k < all.length && all[k].y < all[i].b; k++) {
                const p = all[i], q = all[k];
                if (p.up === q.up && p.text === q.text) continue; // a text that is shortened has two boxes
                // of turned labels the boxes meet, not the letters
                if (fixed(p.up) !== fixed(q.up) || (p.turned && q.turned)) continue;
                // the box of a sum sign that is stretched is larger than the sign
                if ([p, q].some(t => t.text === "∑" && t.at === "mo")) continue;
                const x = Math.min(p.r, q.r) - Math.max(p.x, q.x), y = Math.min(p.b, q.b) - Math.max(p.y, q.y);
                if (x > 1.5 && y > 1.5) fault(p, `meets ${String(q.text).slice(0, 40)} [${q.at}]`);
            }
        return { texts: all.length, faults: faults.slice(0, 12) };
    };
})();

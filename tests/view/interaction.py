# SPDX-License-Identifier: MIT
# interaction.py: measures the page with the browser's own clock, on a quiet machine; never a test.
#   interaction.py MAKE_PAGES MAKE_ODD FOLDER
# Opening: from the start of the navigation to the frame after the first picture, at 512 and at 4,096 tokens. Marking a
# token and choosing a layer at 512 tokens: from the call that a click makes to the end of the frame that shows it, median
# of 21. Prints each number with the bar of docs/view.md; 1: a bar is exceeded.
import os, statistics, subprocess, sys
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import chrome

# The time of an action: of its handler, and from the begin of the next frame to the message that follows this frame, after
# its script, layout and paint. The wait for the frame is left out.
TIMED = """(act => new Promise(done => {
    let begin = 0;
    requestAnimationFrame(() => begin = performance.now());
    const start = performance.now();
    act();
    const handler = performance.now() - start;
    requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => done(handler + performance.now() - begin);
        channel.port2.postMessage(0);
    });
}))(%s)"""
TIMES = 21


def opened(c, path):
    """Returns the milliseconds from the navigation to the first picture."""
    found = []
    for _ in range(5):
        c.open(path)
        c.wait("!!globalThis.qkv && !!qkv.timing")
        found.append(c.js("qkv.page.shownAt"))
    return statistics.median(found)


def acted(c, actions):
    """Returns the median milliseconds of an action and of the frame that shows it."""
    found = []
    for k in range(TIMES):
        found.append(c.js(TIMED % actions[k % len(actions)]))
        c.settle(.4)  # panels and table follow later
    return statistics.median(found)


def main():
    if len(sys.argv) != 4:
        print("usage: interaction.py MAKE_PAGES MAKE_ODD FOLDER")
        return 2
    path = chrome.find()
    if not path:
        print("skipped: no Chromium or Chrome that runs (QKV_CHROME names one)")
        return 77
    folder = sys.argv[3]
    os.makedirs(folder, exist_ok=True)
    subprocess.run([sys.argv[1], folder], check=True)
    subprocess.run([sys.argv[2], folder, "large"], check=True)
    c = chrome.Chrome(path)
    failed = 0
    try:
        c.size(1440, 900)
        long, longer = os.path.join(folder, "long.html"), os.path.join(folder, "tokens-4096.html")
        rows = [("open, 512 tokens", 600, opened(c, long)), ("open, 4,096 tokens", 1000, opened(c, longer))]
        c.open(long)
        c.wait("!!globalThis.qkv && !!qkv.timing")
        c.settle(2)
        marks = ["() => document.querySelectorAll('#tokens .q')[%d].dispatchEvent(new MouseEvent('click',"
                 " { bubbles: true, clientX: (b => b.x + 4)(document.querySelectorAll('#tokens .q')[%d].getBoundingClientRect()),"
                 " clientY: (b => b.y + 4)(document.querySelectorAll('#tokens .q')[%d].getBoundingClientRect()) }))"
                 % (i, i, i) for i in (3, 9, 15, 21)]
        rows.append(("mark a token, 512 tokens", 16, acted(c, marks)))
        layers = ["() => document.querySelectorAll('#overview .num')[%d].click()" % i for i in (0, 1, 2, 3, 4, 5)]
        rows.append(("a layer, 512 tokens", 50, acted(c, layers)))
        for name, bar, ms in rows:
            failed += ms > bar
            print("%-26s %7.1f ms, at most %d%s" % (name, ms, bar, "" if ms <= bar else "  EXCEEDED"), flush=True)
    finally:
        c.close()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: MIT
# chrome.py: drives a headless Chromium over a pipe, with the standard library only.
#
# --remote-debugging-pipe: JSON messages, each ended by NUL, on descriptors 3 and 4 of the browser. The network is
# off: every request of a page except for its own file is recorded and fails.
import base64, json, os, select, shutil, subprocess, tempfile, time

NAMES = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"]


def find():
    """Returns the first Chromium or Chrome that runs, or None: on some systems the name is a stub."""
    for name in ([os.environ["QKV_CHROME"]] if "QKV_CHROME" in os.environ else NAMES):
        path = shutil.which(name)
        if not path:
            continue
        try:
            said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if said.returncode == 0 and any(c.isdigit() for c in said.stdout):
            return path
    return None


class Chrome:
    def __init__(self, path):
        self.home = tempfile.mkdtemp(prefix="qkv-chrome-")
        to_r, self.to = os.pipe()
        self.back, back_w = os.pipe()

        def plug():  # the browser reads 3 and writes 4
            a, b = os.dup(to_r), os.dup(back_w)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [path, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync",
             "--proxy-server=127.0.0.1:9", "--hide-scrollbars", "--force-color-profile=srgb",
             "--disable-dev-shm-usage", "--user-data-dir=" + self.home, "--remote-debugging-pipe",
             "about:blank"],
            preexec_fn=plug, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_r)
        os.close(back_w)
        self.buffer, self.number, self.session = b"", 0, None
        self.errors, self.requests = [], []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(t for t in targets if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (OSError, RuntimeError):
            pass
        os.close(self.to)
        os.close(self.back)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.home, ignore_errors=True)

    def read(self, seconds):
        """Returns one message, or None after a timeout in seconds."""
        end = time.monotonic() + seconds
        while b"\0" not in self.buffer:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.back], [], [], left)[0]:
                return None
            data = os.read(self.back, 1 << 20)
            if not data:
                raise RuntimeError("the browser is gone")
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(message)
        self.note(message)
        return message

    def note(self, message):
        """Records console errors and requests: either fails a test."""
        method, p = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            d = p["exceptionDetails"]
            self.errors.append(d.get("exception", {}).get("description") or d["text"])
        elif method == "Runtime.consoleAPICalled" and p["type"] in ("error", "assert", "warning"):
            self.errors.append(" ".join(str(a.get("value")) for a in p["args"]))
        elif method == "Log.entryAdded" and p["entry"]["level"] in ("error", "warning"):
            self.errors.append(p["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(p["request"]["url"])

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to, data):]
        while True:
            answer = self.read(120)
            if answer is None:
                raise RuntimeError(method + ": no answer")
            if answer.get("id") != self.number:
                continue
            if "error" in answer:
                raise RuntimeError(method + ": " + answer["error"]["message"])
            return answer["result"]

    def settle(self, seconds=0.05):
        """Waits, and records the messages of the browser."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read(end - time.monotonic())

    def js(self, code):
        """Returns the value of an expression, of a promise when it is resolved."""
        r = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in r:
            d = r["exceptionDetails"]
            raise RuntimeError(code + ": " + str(d.get("exception", {}).get("description") or d["text"]))
        return r["result"].get("value")

    def wait(self, code, seconds=20):
        """Waits until an expression is true."""
        end = time.monotonic() + seconds
        while not self.js(code):
            if time.monotonic() > end:
                raise RuntimeError("never true: " + code)
            self.settle(0.03)

    def frames(self, n=2):
        """Waits for n frames."""
        for _ in range(n):
            self.js("new Promise(r => requestAnimationFrame(() => r(1)))")

    def open(self, path, hash=""):
        self.call("Page.navigate", url="about:blank")
        self.call("Page.navigate", url="file://" + os.path.abspath(path) + hash)
        self.wait("document.readyState === 'complete'")
        self.frames()

    def size(self, width, height, scale=1, touch=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale,
                  mobile=touch)

    def media(self, **features):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": k.replace("_", "-"), "value": v} for k, v in features.items()])

    def key(self, key, code=None, shift=False):
        codes = {"ArrowUp": 38, "ArrowDown": 40, "ArrowLeft": 37, "ArrowRight": 39, "Enter": 13, "Escape": 27, "Tab": 9, "Delete": 46}
        p = {"key": key, "code": code or key, "modifiers": 8 if shift else 0,
             "windowsVirtualKeyCode": codes.get(key, ord(key[0].upper()) if len(key) == 1 else 0)}
        if len(key) == 1 or key == "Enter":
            p["text"] = "\r" if key == "Enter" else key
        self.call("Input.dispatchKeyEvent", type="keyDown", **p)
        p.pop("text", None)
        self.call("Input.dispatchKeyEvent", type="keyUp", **p)
        self.frames()

    def mouse(self, x, y, kind="mouseMoved"):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="none" if kind == "mouseMoved" else "left",
                  clickCount=0 if kind == "mouseMoved" else 1)

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(x, y, kind)
        self.frames()

    def shot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

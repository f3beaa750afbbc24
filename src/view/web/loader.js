// SPDX-License-Identifier: MIT
// loader.js: starts the script of the page, which is compressed because it is larger than the numbers of a short text.
// The policy of the page lists the SHA-256 of both scripts, so the browser runs no other text.
import { fromBase64, unpack } from "./base/bytes.js";

async function loadScript() {
    const code = document.getElementById("code"), script = document.createElement("script");
    try {
        const bytes = await unpack(fromBase64(code.textContent), Number(code.dataset.bytes));
        script.textContent = new TextDecoder().decode(bytes);
    } catch {
        const line = document.getElementById("loading");
        line.hidden = false;
        line.className = "broken";
        line.textContent = "This file is damaged: its script cannot be decompressed.";
        return;
    }
    code.replaceWith(script);
}
if (document.readyState === "loading") addEventListener("DOMContentLoaded", loadScript);
else loadScript();

// SPDX-License-Identifier: MIT
// steps.js: the view "How does this word arrive at that one?": the six steps of attention.

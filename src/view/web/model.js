// SPDX-License-Identifier: MIT
// model.js: the view "What kinds of head are there?": all layers and heads at once.

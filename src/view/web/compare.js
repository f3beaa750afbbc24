// SPDX-License-Identifier: MIT
// compare.js: the view "What changed?": two pictures, one cursor.

// SPDX-License-Identifier: MIT
// matrix.js: the view "Where does this text read itself?": any length, from pyramid to single tokens.

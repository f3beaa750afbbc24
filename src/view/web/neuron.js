// SPDX-License-Identifier: MIT
// neuron.js: the view "Which numbers made this weight?": one pair, number by number.

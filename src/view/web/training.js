// SPDX-License-Identifier: MIT
// training.js: a run of training, step by step.

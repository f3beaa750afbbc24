// SPDX-License-Identifier: MIT
// math.js: names the functions of Math that the page uses, and finds the largest elements of a list.

export const { abs, ceil, floor, max, min, round, sqrt } = Math;

/**
 * Returns the `most` elements j of list with the largest values[j], in descending order. Among equal values, the
 * smaller index is first.
 * @param {number[]} list
 * @param {ArrayLike<number>} values
 * @param {number} most
 * @returns {number[]}
 */
export function strongestOf(list, values, most) {
    const before = (a, b) => values[b] - values[a] || a - b;
    if (list.length <= 4 * most) return list.slice().sort(before).slice(0, most);
    const best = [];
    let least = -Infinity;
    for (const j of list) {
        if (!(values[j] > least)) continue;
        best.push(j);
        if (best.length < 2 * most) continue;
        best.sort(before);
        best.length = most;
        least = values[best[most - 1]];
    }
    return best.sort(before).slice(0, most);
}
export const sumOf = (list, values) => { let sum = 0; for (const j of list) sum += values[j]; return sum; };

// SPDX-License-Identifier: MIT
/** measure.h: what this machine can do at most, measured now: what a speed is to be compared with.
 *
 *  A clock changes from one second to the next: measure a peak beside the work, in turns with it.
 */
#ifndef QKV_MEASURE_H
#define QKV_MEASURE_H

#include <qkv/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Operations a second (a multiply and its add are two) of independent multiply-adds that never
 *  leave the registers, on qkv_threads() threads at once, with the units of qkv_isa(); by the
 *  threads' own clocks, so that what other programs take of a core does not count.
 *
 *  In:       arithmetic  as a plan names it: "float", "bf16 pairs", ...; where several products of
 *                        the unit make one ("six bf16 products"), the peak of the whole
 *            seconds     about how long; at least a few thousand operations run
 *  Returns:  0: no such arithmetic, or not on this instruction set */
QKV_API double qkv_measure_peak(const char *arithmetic, double seconds);

/** Bytes a second of reading data[bytes] once, in several streams: qkv_threads() threads a piece
 *  each; one thread by its own clock.
 *  Returns:  0: no data */
QKV_API double qkv_measure_read(const void *data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif

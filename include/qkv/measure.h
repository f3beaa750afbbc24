// SPDX-License-Identifier: MIT
/** measure.h: measures the peak arithmetic and memory throughput of this machine, with which a
 *  program can compare the speed of its work.
 *
 *  The clock frequency changes within seconds, so measure a peak directly before or after the work
 *  to compare.
 */
#ifndef QKV_MEASURE_H
#define QKV_MEASURE_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/** Returns the peak operations per second (a multiply-add is two) of independent multiply-adds in
 *  registers, on qkv_threads() concurrent threads, with the vector units of qkv_isa().  It measures
 *  the CPU time of each thread, so that other programs on the same cores do not lower the result.
 *
 *  In:       arithmetic  a value of the member `arithmetic` of a plan: "float", "bf16 pairs", ...;
 *                        for "six bf16 products" the six products count as one operation
 *            seconds     approximate duration, at most 60: a longer one is cut to 60; at least a
 *                        few thousand operations run
 *  Returns 0 if there is no such arithmetic or the instruction set lacks it. */
QKV_API double qkv_measure_peak(const char *arithmetic, double seconds);

/** Returns the bytes per second of reading data[bytes] once.  The data is read in four quarters, as
 *  1, 2, 4 and 8 streams, and the rate of the fastest quarter is returned, because CPUs differ in
 *  the number of streams that they read fastest.  Each of qkv_threads() threads reads one piece of
 *  a quarter.  With a single thread its CPU time is measured, otherwise
 *  the elapsed time.
 *  Returns 0 if bytes is 0 or data is NULL. */
QKV_API double qkv_measure_read(const void *data, size_t bytes);

QKV_END_DECLS
#endif

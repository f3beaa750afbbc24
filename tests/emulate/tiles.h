// SPDX-License-Identifier: MIT
// tiles.h: the tile instructions of AMX on x86-64 machines that lack them, for tests.
//
// The compiled code runs as it is.  Where the processor does not know an instruction it raises
// SIGILL; the handler decodes the bytes, does what the manual says on a tile file in memory, one a
// thread, and goes on behind them (about two microseconds a signal, which several in a row share).
// A machine that has AMX raises nothing: there the same tests run on its own tiles.
//
// What the processor would refuse (tiles not configured, a bad palette, shapes that do not fit, an
// encoding that is reserved) is told on stderr and goes to the handler that SIGILL had otherwise:
// cmocka's, which fails the case, or none, which ends the process.
#ifndef QKV_TESTS_TILES_H
#define QKV_TESTS_TILES_H

#include <stdbool.h>
#include <stdint.h>

// True: this machine runs tile instructions itself, and the system lets this process.
bool tiles_native(void);
// From now on SIGILL is looked at.  False: the machine lacks AVX-512, which the emulation works
// with (and every kernel that uses tiles).
bool tiles_emulate(void);

// Instructions emulated so far on this thread; 0 on a machine with AMX.
int64_t tiles_count(void);
// This thread's tiles are configured: whoever used them did not release them.  Only of emulation.
bool tiles_held(void);
// What was wrong with the last instruction refused on this thread; "" when none was.
const char *tiles_refused(void);

#endif

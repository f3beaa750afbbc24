// SPDX-License-Identifier: MIT
// tiles.h: emulates the tile instructions of AMX on x86-64 machines that lack them, for tests.
//
// The compiled code runs unchanged. A processor that does not know an instruction raises SIGILL;
// the handler decodes the bytes, executes the instruction as the manual specifies on a tile file in
// memory (one per thread), and continues with the next instruction. A signal takes about two
// microseconds, which several consecutive instructions share. A machine with AMX raises no signal:
// there the same tests run on its own tiles.
//
// Instructions that the processor would refuse (tiles not configured, a bad palette, shapes that do
// not match, a reserved encoding) are reported on stderr and passed to the handler that SIGILL had
// otherwise: cmocka's, which fails the case, or none, which ends the process.
#ifndef QKV_TESTS_TILES_H
#define QKV_TESTS_TILES_H

#include <stdbool.h>
#include <stdint.h>

// Returns true if this machine executes tile instructions and the system permits this process to
// use them.
bool tiles_native(void);
// Installs the handler of SIGILL. Returns false if the machine lacks AVX-512, which the emulation
// (and every kernel with tiles) uses.
bool tiles_emulate(void);

// Returns the number of instructions emulated on this thread; 0 on a machine with AMX.
int64_t tiles_count(void);
// Returns true if this thread's tiles are configured: the last user did not release them. Works
// only with emulation.
bool tiles_held(void);
// Returns the reason why the last instruction on this thread was refused; "" if none was.
const char *tiles_refused(void);

#endif

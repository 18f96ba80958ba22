/* sandbox.h: takes from a process all that decoding a picture doesn't need. */
#ifndef ENGINE_DECODE_SANDBOX_H
#define ENGINE_DECODE_SANDBOX_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANDBOX_OF_TIME
#endif
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX_OF_TIME
#endif

/* Processors whose system calls are filtered. */
#if defined(__x86_64__) || defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64) ||               \
    (defined(__powerpc64__) && defined(__LITTLE_ENDIAN__))
#define SANDBOX_OF_CALLS
#endif

/* From now on the process can read from descriptor 0, write to 1, get memory (address space up to `memory`
 * bytes), use the processor for `seconds` more, and end. Opening a file fails; anything else kills it, at the
 * end of its time by SIGXCPU. False: the system does not allow this.
 *
 * On other processors than those above (without SANDBOX_OF_CALLS) only memory, time and new files and
 * descriptors are limited, and privileges that a program's file would give.
 *
 * AddressSanitizer and ThreadSanitizer need terabytes of address space and system calls of their own: with
 * them (SANDBOX_OF_TIME) only the time is limited. */
bool sandbox_enter(uint64_t memory, uint64_t seconds);

#endif

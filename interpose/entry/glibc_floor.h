// Binds functions that glibc 2.34 moved into libc.so.6 to their first version, so that the shim
// also loads where they still live in libdl and libpthread (both are in its NEEDED list for that
// reason). Include only in sources that call one of them.
#ifndef GORDIAN_INTERPOSE_ENTRY_GLIBC_FLOOR_H_
#define GORDIAN_INTERPOSE_ENTRY_GLIBC_FLOOR_H_

#if defined(__x86_64__)
#define GORDIAN_FIRST_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define GORDIAN_FIRST_VERSION "GLIBC_2.17"
#else
#error "the shim knows x86-64 and AArch64 only"
#endif

#define GORDIAN_BIND_FIRST_VERSION(symbol) \
  __asm__(".symver " #symbol "," #symbol "@" GORDIAN_FIRST_VERSION)

#endif  // GORDIAN_INTERPOSE_ENTRY_GLIBC_FLOOR_H_

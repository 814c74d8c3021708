// The functions of glibc 2.36 that gordian's programs and the libraries of its wheel call, and that glibc
// 2.28 lacks. older_glibc.py makes them take these from here.
//
// The symbols have a version of their own, so a job that loads one of the wheel's libraries still takes its
// own functions from its glibc.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __aarch64__
#define OLDEST "GLIBC_2.17"
#else
#define OLDEST "GLIBC_2.2.5"
#endif

// Since 2.33. Before, each program had a copy of these, which called __xstat. The kernel fills in glibc's
// struct on both processors.
int fstatat(int folder, const char* restrict path, struct stat* restrict out, int flags) {
  return (int)syscall(SYS_newfstatat, folder, path, out, flags);
}

int stat(const char* restrict path, struct stat* restrict out) { return fstatat(AT_FDCWD, path, out, 0); }

int lstat(const char* restrict path, struct stat* restrict out) {
  return fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

int fstat(int fd, struct stat* out) { return (int)syscall(SYS_fstat, fd, out); }

_Static_assert(sizeof(struct stat) == sizeof(struct stat64), "one struct, two names");
int fstatat64(int, const char* restrict, struct stat64* restrict, int) __attribute__((alias("fstatat")));
int stat64(const char* restrict, struct stat64* restrict) __attribute__((alias("stat")));
int lstat64(const char* restrict, struct stat64* restrict) __attribute__((alias("lstat")));
int fstat64(int, struct stat64*) __attribute__((alias("fstat")));

// Since 2.30.
pid_t gettid(void) { return (pid_t)syscall(SYS_gettid); }

// Since 2.32. libstdc++ counts references without atomic operations where this is 1.
char __libc_single_threaded = 0;

// Since 2.36.
uint32_t arc4random(void) {
  uint32_t number;
  while (getrandom(&number, sizeof number, 0) != sizeof number) {
    if (errno != EINTR) abort();
  }
  return number;
}

// Since 2.30. Waits by CLOCK_REALTIME, the clock of such a condition, for the time that is left by `clock`.
// If someone sets the time meanwhile, it returns early or late; libstdc++ then looks at `clock` again.
int pthread_cond_clockwait(pthread_cond_t* restrict cond, pthread_mutex_t* restrict mutex, clockid_t clock,
                           const struct timespec* restrict deadline) {
  struct timespec now, until;
  if (clock == CLOCK_REALTIME) return pthread_cond_timedwait(cond, mutex, deadline);
  if (clock_gettime(clock, &now) != 0 || clock_gettime(CLOCK_REALTIME, &until) != 0) return EINVAL;
  const int64_t second = 1000000000;
  const int64_t left = (deadline->tv_sec - now.tv_sec) * second + deadline->tv_nsec - now.tv_nsec;
  const int64_t at = until.tv_nsec + (left > 0 ? left : 0);
  until.tv_sec += at / second;
  until.tv_nsec = at % second;
  return pthread_cond_timedwait(cond, mutex, &until);
}

// Since 2.35. The unwinder of exceptions looks up the object that holds an address.
struct Asked {
  uintptr_t pc;
  struct dl_find_object* found;
};

static int FindIn(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  const struct Asked* asked = data;
  uintptr_t frames = 0, begin = UINTPTR_MAX, end = 0;
  int holds = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &object->dlpi_phdr[i];
    const uintptr_t at = object->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_GNU_EH_FRAME) frames = at;
    if (part->p_type != PT_LOAD) continue;
    if (asked->pc >= at && asked->pc - at < part->p_memsz) holds = 1;
    if (at < begin) begin = at;
    if (at + part->p_memsz > end) end = at + part->p_memsz;
  }
  if (!holds) return 0;
  memset(asked->found, 0, sizeof *asked->found);
  asked->found->dlfo_map_start = (void*)begin;
  asked->found->dlfo_map_end = (void*)end;
  asked->found->dlfo_eh_frame = (void*)frames;
  return frames != 0 ? 1 : -1;
}

int _dl_find_object(void* pc, struct dl_find_object* found) {
  struct Asked asked = {(uintptr_t)pc, found};
  return dl_iterate_phdr(FindIn, &asked) == 1 ? 0 : -1;
}

// Changed in 2.34: since then glibc runs the constructors of a program. Before, the program's own start code
// ran them, and a program that is linked today has no such code.
typedef int Main(int, char**, char**);
typedef void Constructor(int, char**, char**);
int OldStart(Main*, int, char**, Constructor*, void (*)(void), void (*)(void), void*);
__asm__(".symver OldStart, __libc_start_main@" OLDEST);

static int ProgramOf(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  *(struct dl_phdr_info*)data = *object;
  return 1;  // the program is the first
}

static void RunConstructors(int argc, char** argv, char** environment) {
  struct dl_phdr_info program;
  if (dl_iterate_phdr(ProgramOf, &program) != 1) return;
  const ElfW(Dyn)* entry = NULL;
  for (int i = 0; i < program.dlpi_phnum; ++i) {
    if (program.dlpi_phdr[i].p_type == PT_DYNAMIC)
      entry = (const ElfW(Dyn)*)(program.dlpi_addr + program.dlpi_phdr[i].p_vaddr);
  }
  Constructor* first = NULL;
  Constructor** all = NULL;
  size_t count = 0;
  for (; entry != NULL && entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_INIT) first = (Constructor*)(program.dlpi_addr + entry->d_un.d_ptr);
    if (entry->d_tag == DT_INIT_ARRAY) all = (Constructor**)(program.dlpi_addr + entry->d_un.d_ptr);
    if (entry->d_tag == DT_INIT_ARRAYSZ) count = entry->d_un.d_val / sizeof *all;
  }
  if (first != NULL) first(argc, argv, environment);
  for (size_t i = 0; i < count; ++i) all[i](argc, argv, environment);
}

int __libc_start_main(Main* program, int argc, char** argv, Constructor* init, void (*fini)(void),
                      void (*loaders)(void), void* stack_end) {
  return OldStart(program, argc, argv, init != NULL ? init : RunConstructors, fini, loaders, stack_end);
}

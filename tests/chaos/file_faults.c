/* Faults of files and clocks, for a program that is started with LD_PRELOAD.
   Calls whose path contains FAULT_PATH are numbered from 0.

   FAULT_MODE       at call FAULT_AT: die (SIGKILL), freeze (SIGSTOP), enospc,
   eio FAULT_DELAY_US   each call first waits a pseudo-random time below this
   FAULT_LOG        a file that gets a line for each call: number, operation,
   path FAULT_CLOCK_JUMP the wall clock jumps by up to this many seconds, 5
   times a second */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define REAL(name)               \
  static __typeof__(&name) real; \
  if (!real)                     \
  real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

static const char* path_part;
static const char* mode = "";
static const char* log_file;
static long fault_at = -1, delay, clock_jump;
static atomic_long calls;

static long number_of(const char* variable, long otherwise) {
  const char* text = getenv(variable);
  return text ? atol(text) : otherwise;
}

__attribute__((constructor)) static void read_environment(void) {
  path_part = getenv("FAULT_PATH");
  if (getenv("FAULT_MODE"))
    mode = getenv("FAULT_MODE");
  log_file = getenv("FAULT_LOG");
  fault_at = number_of("FAULT_AT", -1);
  delay = number_of("FAULT_DELAY_US", 0);
  clock_jump = number_of("FAULT_CLOCK_JUMP", 0);
}

static void write_log(long number, const char* operation, const char* path) {
  static int (*real_open)(const char*, int, ...);
  static ssize_t (*real_write)(int, const void*, size_t);
  if (!real_open)
    real_open = dlsym(RTLD_NEXT, "open");
  if (!real_write)
    real_write = dlsym(RTLD_NEXT, "write");
  char line[1200];
  const int length =
    snprintf(line, sizeof line, "%ld %s %s\n", number, operation, path);
  const int file = real_open(log_file, O_WRONLY | O_APPEND | O_CREAT, 0644);
  if (real_write(file, line, (size_t)length) < 0)
    abort();
  close(file);
}

/* Whether the call fails, with errno. */
static int fails(const char* operation, const char* path) {
  if (!path_part || !path || !strstr(path, path_part))
    return 0;
  const long number = atomic_fetch_add(&calls, 1);
  if (delay)
    usleep(((unsigned)number * 2654435761u ^ (unsigned)getpid())
           % (unsigned)delay);
  if (log_file)
    write_log(number, operation, path);
  if (number != fault_at)
    return 0;
  if (!strcmp(mode, "die"))
    kill(getpid(), SIGKILL);
  if (!strcmp(mode, "freeze"))
    kill(getpid(), SIGSTOP);
  errno = !strcmp(mode, "enospc") ? ENOSPC : EIO;
  return !strcmp(mode, "enospc") || !strcmp(mode, "eio");
}

static int fails_at(const char* operation, int folder, const char* name) {
  if (!path_part || (folder >= 0 && folder < 3))
    return 0;
  char path[2200] = "";
  if (folder >= 0) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
    const ssize_t length = readlink(link, path, 1000);
    if (length <= 0)
      return 0;
    path[length] = 0;
  }
  snprintf(path + strlen(path), sizeof path - strlen(path), "/%s", name);
  return fails(operation, path);
}

static int fails_open(const char* path, int flags) {
  return (flags & O_ACCMODE) != O_RDONLY && fails("open", path);
}

static mode_t mode_of(int flags, va_list list) {
  return flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
}

#define DEFINE_OPEN(name)                                            \
  int name(const char* path, int flags, ...) {                       \
    REAL(name);                                                      \
    va_list list;                                                    \
    va_start(list, flags);                                           \
    const mode_t rights = mode_of(flags, list);                      \
    va_end(list);                                                    \
    return fails_open(path, flags) ? -1 : real(path, flags, rights); \
  }
DEFINE_OPEN(open)
DEFINE_OPEN(open64)
FILE* fopen(const char* path, const char* how) {
  REAL(fopen);
  return how[0] != 'r' && fails("open", path) ? NULL : real(path, how);
}
FILE* fopen64(const char* path, const char* how) {
  REAL(fopen64);
  return how[0] != 'r' && fails("open", path) ? NULL : real(path, how);
}
ssize_t write(int file, const void* bytes, size_t count) {
  REAL(write);
  return fails_at("write", file, "") ? -1 : real(file, bytes, count);
}
ssize_t writev(int file, const struct iovec* parts, int count) {
  REAL(writev);
  return fails_at("write", file, "") ? -1 : real(file, parts, count);
}
ssize_t pwrite(int file, const void* bytes, size_t count, off_t offset) {
  REAL(pwrite);
  return fails_at("write", file, "") ? -1 : real(file, bytes, count, offset);
}
int fsync(int file) {
  REAL(fsync);
  return fails_at("fsync", file, "") ? -1 : real(file);
}
int fdatasync(int file) {
  REAL(fdatasync);
  return fails_at("fsync", file, "") ? -1 : real(file);
}
int rename(const char* from, const char* to) {
  REAL(rename);
  return fails("rename", from) ? -1 : real(from, to);
}
int link(const char* from, const char* to) {
  REAL(link);
  return fails("link", to) ? -1 : real(from, to);
}
int mkdir(const char* path, mode_t rights) {
  REAL(mkdir);
  return fails("mkdir", path) ? -1 : real(path, rights);
}
int unlink(const char* path) {
  REAL(unlink);
  return fails("unlink", path) ? -1 : real(path);
}
int remove(const char* path) {
  REAL(remove);
  return fails("unlink", path) ? -1 : real(path);
}
int unlinkat(int folder, const char* name, int flags) {
  REAL(unlinkat);
  const int in = folder == AT_FDCWD || name[0] == '/' ? -1 : folder;
  return fails_at("unlink", in, name) ? -1 : real(folder, name, flags);
}
int clock_gettime(clockid_t clock, struct timespec* time) {
  REAL(clock_gettime);
  const int result = real(clock, time);
  if (clock_jump && clock == CLOCK_REALTIME) {
    struct timespec steady;
    real(CLOCK_MONOTONIC, &steady);
    const long fifth = steady.tv_sec * 5 + steady.tv_nsec / 200000000;
    const long random = (long)((unsigned)fifth * 2654435761u >> 16) % 2001;
    time->tv_sec += (random - 1000) * clock_jump / 1000;
  }
  return result;
}
time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out)
    *out = now.tv_sec;
  return now.tv_sec;
}
int gettimeofday(struct timeval* out, void* zone) {
  (void)zone;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}

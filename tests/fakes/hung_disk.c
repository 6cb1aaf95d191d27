/* A disk that does not answer: calls that touch files below one of the prefixes in HUNG_BELOW (separated
   by colons) wait as long as the first number of the file HUNG_SWITCH is not 0. The second number counts
   the calls that began to wait. Preloaded: cc -shared -fPIC. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

struct control {
    volatile int64_t hangs;
    volatile int64_t waited;
};

static struct control *control;
static const char *below;

__attribute__((constructor)) static void open_switch(void) {
    const char *name = getenv("HUNG_SWITCH");
    below = getenv("HUNG_BELOW");
    int file = name && below ? open(name, O_RDWR | O_CLOEXEC) : -1;
    if (file >= 0) {
        void *page = mmap(0, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (page != MAP_FAILED) control = page;
        close(file);
    }
}

static int is_below(const char *path) {
    const char *prefix = below;
    while (*prefix) {
        size_t length = strcspn(prefix, ":");
        if (length && !strncmp(path, prefix, length)) return 1;
        prefix += length + (prefix[length] == ':');
    }
    return 0;
}

static void hang(void) {
    struct timespec pause = {0, 5000000};
    __atomic_fetch_add(&control->waited, 1, __ATOMIC_SEQ_CST);
    while (control->hangs) nanosleep(&pause, 0);
}

static void pass_file(int file) {
    if (!control || !control->hangs || file < 0) return;
    char link[64], path[PATH_MAX];
    int kept = errno;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0) {
        path[length] = 0;
        if (is_below(path)) hang();
    }
    errno = kept;
}

static void pass(int directory, const char *name) {
    if (!control || !control->hangs || !name) return;
    if (*name == '/') {
        if (is_below(name)) hang();
        return;
    }
    char link[64], path[2 * PATH_MAX];
    int kept = errno;
    if (directory == AT_FDCWD) snprintf(link, sizeof link, "/proc/self/cwd");
    else snprintf(link, sizeof link, "/proc/self/fd/%d", directory);
    ssize_t length = readlink(link, path, PATH_MAX);
    if (length > 0) {
        snprintf(path + length, PATH_MAX, "/%s", name);
        if (is_below(path)) hang();
    }
    errno = kept;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        pass(AT_FDCWD, path); \
        return REAL(name)(path, flags, mode); \
    }
OPENS(open)
OPENS(open64)

#define OPENS_AT(name) \
    int name(int directory, const char *path, int flags, ...) { \
        va_list rest; \
        va_start(rest, flags); \
        mode_t mode = va_arg(rest, mode_t); \
        va_end(rest); \
        pass(directory, path); \
        return REAL(name)(directory, path, flags, mode); \
    }
OPENS_AT(openat)
OPENS_AT(openat64)

#define WITH_PATH(type, name, parameters, arguments) \
    type name parameters { \
        pass(AT_FDCWD, path); \
        return REAL(name) arguments; \
    }
#define WITH_DIRECTORY(type, name, parameters, arguments) \
    type name parameters { \
        pass(directory, path); \
        return REAL(name) arguments; \
    }
#define WITH_FILE(type, name, parameters, arguments) \
    type name parameters { \
        pass_file(file); \
        return REAL(name) arguments; \
    }

WITH_PATH(int, stat, (const char *path, struct stat *found), (path, found))
WITH_PATH(int, stat64, (const char *path, struct stat64 *found), (path, found))
WITH_PATH(int, lstat, (const char *path, struct stat *found), (path, found))
WITH_PATH(int, lstat64, (const char *path, struct stat64 *found), (path, found))
WITH_PATH(int, access, (const char *path, int mode), (path, mode))
WITH_PATH(int, mkdir, (const char *path, mode_t mode), (path, mode))
WITH_PATH(int, unlink, (const char *path), (path))
WITH_PATH(int, rename, (const char *path, const char *to), (path, to))
WITH_PATH(DIR *, opendir, (const char *path), (path))
WITH_DIRECTORY(int, fstatat, (int directory, const char *path, struct stat *found, int flags),
               (directory, path, found, flags))
WITH_DIRECTORY(int, fstatat64, (int directory, const char *path, struct stat64 *found, int flags),
               (directory, path, found, flags))
WITH_DIRECTORY(int, statx,
               (int directory, const char *path, int flags, unsigned mask, struct statx *found),
               (directory, path, flags, mask, found))
WITH_DIRECTORY(int, mkdirat, (int directory, const char *path, mode_t mode), (directory, path, mode))
WITH_FILE(ssize_t, read, (int file, void *data, size_t size), (file, data, size))
WITH_FILE(ssize_t, write, (int file, const void *data, size_t size), (file, data, size))
WITH_FILE(ssize_t, pread, (int file, void *data, size_t size, off_t at), (file, data, size, at))
WITH_FILE(ssize_t, pread64, (int file, void *data, size_t size, off64_t at), (file, data, size, at))
WITH_FILE(ssize_t, pwrite, (int file, const void *data, size_t size, off_t at), (file, data, size, at))
WITH_FILE(ssize_t, pwrite64, (int file, const void *data, size_t size, off64_t at),
          (file, data, size, at))
WITH_FILE(int, fsync, (int file), (file))
WITH_FILE(int, fdatasync, (int file), (file))
WITH_FILE(int, ftruncate, (int file, off_t size), (file, size))
WITH_FILE(int, ftruncate64, (int file, off64_t size), (file, size))

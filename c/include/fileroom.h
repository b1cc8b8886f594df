/* fileroom.h: memory behind a file that is mapped. */
#ifndef MPITRACE_FILEROOM_H
#define MPITRACE_FILEROOM_H

#include <errno.h>
#include <fcntl.h>

#include "base.h"

/* Gives a file room for bytes from at on, so that no touch of them ends the process
 * for want of memory. Kernels until 2024 end a call on tmpfs for any signal, and takes
 * back what it did: so it is called for a step at a time, again and again. False: there
 * is no room. */
MT_INLINE bool mt_file_room(int fd, uint64_t at, uint64_t bytes)
{
    enum { STEP = 256 << 10, TRIES = 1000 };
    for (uint64_t done = 0; done < bytes; done += STEP) {
        uint64_t step = bytes - done < STEP ? bytes - done : STEP;
        int error = EINTR;
        for (int i = 0; i < TRIES && error == EINTR; i++) {
            error = posix_fallocate(fd, (off_t)(at + done), (off_t)step);
        }
        if (error != 0) {
            return false;
        }
    }
    return bytes > 0;
}

#endif

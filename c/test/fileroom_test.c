/* sources: */
/* fileroom_test.c: room for a file while signals end the calls that ask for it. */
#include <assert.h>
#include <stdio.h>

#include "../include/base.h"

static int interruptions, refusal;
static uint64_t end; /* all before it has room */

static int room(int fd, long at, long bytes)
{
    assert(fd == 3 && at >= 4096 && bytes > 0);
    if (interruptions > 0) {
        interruptions--;
        return 4; /* EINTR */
    }
    if (refusal != 0) {
        return refusal;
    }
    assert((uint64_t)at == end);
    end += (uint64_t)bytes;
    return 0;
}

#define posix_fallocate room
#include "../include/fileroom.h"

int main(void)
{
    _Static_assert(EINTR == 4, "EINTR");
    for (uint64_t bytes = 1; bytes < 3 << 20; bytes = 3 * bytes + 1) {
        end = 4096;
        interruptions = 100;
        assert(mt_file_room(3, 4096, bytes) && end == 4096 + bytes);
    }
    refusal = ENOSPC;
    interruptions = 5;
    assert(!mt_file_room(3, 4096, 100) && interruptions == 0);
    refusal = 0;
    interruptions = 1 << 30; /* no end of them */
    assert(!mt_file_room(3, 4096, 100));
    puts("No Errors");
    return 0;
}

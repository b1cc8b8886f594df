/* status.c: the words of enum mt_status. */
#include "../include/status.h"

const char *mt_status_text(enum mt_status status)
{
    static const char *const text[MT_STATUSES] = {
        [MT_OK] = "done",
        [MT_EAGAIN] = "nothing there now",
        [MT_ENODEVICE] = "no such device",
        [MT_ENOTSUP] = "the device cannot do that",
        [MT_EINVAL] = "wrong argument",
        [MT_ENOMEM] = "out of memory, pinned memory or descriptors (ulimit)",
        [MT_EPERM] = "not permitted",
        [MT_ESTATE] = "not in this state",
        [MT_ETRUNCATED] = "longer than the buffer posted for it",
        [MT_EACCESS] = "remote memory may not be accessed like that",
        [MT_EPEER] = "the peer is gone",
        [MT_EFLUSHED] = "flushed: the queue pair is in its error state",
        [MT_EVERSION] = "the peer speaks another version",
        [MT_ETIMEOUT] = "not in time",
        [MT_EIO] = "device or kernel error",
    };
    return (unsigned)status < MT_STATUSES ? text[status] : "unknown status";
}

/* status.h: what a function of the layers below the MPI wrappers may return.
 * The first function that decides an error says what happened, once; callers
 * only pass it on. Outputs are set on MT_OK only. */
#ifndef MPITRACE_STATUS_H
#define MPITRACE_STATUS_H

enum mt_status {
    MT_OK = 0,
    MT_EAGAIN,      /* no room or nothing there now; try again after progress */
    MT_ENODEVICE,   /* no such device, port or provider */
    MT_ENOTSUP,     /* the device cannot do it; its capabilities say so */
    MT_EINVAL,      /* a caller's mistake */
    MT_ENOMEM,      /* memory, also pinned memory, or descriptors ran out */
    MT_EPERM,       /* the operating system does not allow it */
    MT_ESTATE,      /* not in the present state of the object */
    MT_ETRUNCATED,  /* the message is longer than the buffer posted for it */
    MT_EACCESS,     /* remote memory may not be accessed like that */
    MT_EPEER,       /* the other side is gone, or broke the protocol */
    MT_EFLUSHED,    /* the queue pair went into its error state before */
    MT_EVERSION,    /* the other side speaks another version */
    MT_ETIMEOUT,    /* not within the time given */
    MT_EIO,         /* the device or the kernel failed */
    MT_STATUSES,
};

/* A few words in English, never NULL. */
const char *mt_status_text(enum mt_status status);

#endif

/* port.c: whether the interface of a context is up, and events when that
 * changes. The kernel's notices (rtnetlink, RFC 3549) only say that it is time
 * to ask: what they contain is not looked at, so a change that is over before
 * anybody looked makes no event. Under the lock of the context. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "iwarp.h"

bool mt_iwarp_flags_up(unsigned flags)
{
    return (flags & IFF_UP) != 0 && (flags & IFF_RUNNING) != 0;
}

/* An interface that is gone is down. */
static bool mt_link_up(const struct mt_iwarp_context *context)
{
    struct ifreq request = {0};
    return if_indextoname(context->scope, request.ifr_name) != NULL &&
           ioctl(context->listener, SIOCGIFFLAGS, &request) == 0 &&
           mt_iwarp_flags_up((unsigned short)request.ifr_flags);
}

void mt_iwarp_port_look(struct mt_iwarp_context *context)
{
    char notice[64]; /* the rest of each is cut off */
    bool any = false;
    ssize_t n;
    while (context->notices >= 0 &&
           ((n = recv(context->notices, notice, sizeof(notice),
                      MSG_DONTWAIT)) > 0 ||
            (n < 0 && (errno == ENOBUFS || errno == EINTR)))) {
        any = true; /* ENOBUFS: some did not fit, of which one may be ours */
    }
    if (!any || mt_link_up(context) == context->link_up) {
        return;
    }
    context->link_up = !context->link_up;
    mt_soft_event(&context->soft,
                  &(struct mt_fabric_event){.kind = context->link_up
                                                ? MT_FABRIC_EVENT_PORT_UP
                                                : MT_FABRIC_EVENT_PORT_DOWN,
                                            .port = 1});
}

enum mt_status mt_iwarp_port_open(struct mt_iwarp_context *context,
                                  const struct mt_fabric_options *options)
{
    const struct sockaddr_nl links = {.nl_family = AF_NETLINK,
                                      .nl_groups = RTMGRP_LINK};
    context->notices =
        socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
               NETLINK_ROUTE);
    if (context->notices < 0 && (errno == EMFILE || errno == ENFILE)) {
        return MT_ENOMEM;
    }
    if (context->notices < 0 ||
        bind(context->notices, (const struct sockaddr *)&links,
             sizeof(links)) != 0) {
        mt_fabric_say(options,
                      "iwarp: links that go down are not told of: the system "
                      "gives no netlink socket (%s)",
                      strerror(errno));
    }
    context->link_up = mt_link_up(context); /* changes from here on are told */
    return context->notices < 0
               ? MT_OK
               : mt_iwarp_watch(context, context->notices,
                                &context->notices_watch);
}

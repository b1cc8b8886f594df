/* names.h: the files that are compiled once per ABI have names of their own in
 * each. Functions that several of them use are listed here. */
#ifndef MPITRACE_ACT_NAMES_H
#define MPITRACE_ACT_NAMES_H

#include "../abi/abi.h"

#define mt_act MT_NAME(act)

/* idle.c */
#define mt_act_idle MT_NAME(act_idle)
#define mt_act_drive MT_NAME(act_drive)
#define mt_act_poll MT_NAME(act_poll)
/* error.c */
#define mt_act_error MT_NAME(act_error)
#define mt_act_error_of MT_NAME(act_error_of)
/* comm.c */
#define mt_act_comm_adopt MT_NAME(act_comm_adopt)
#define mt_act_comm_freeing MT_NAME(act_comm_freeing)
#define mt_act_comm_own MT_NAME(act_comm_own)
#define mt_act_comm_functions MT_NAME(act_comm_functions)
#define mt_act_comm_end MT_NAME(act_comm_end)
/* type.c */
#define mt_act_type_find MT_NAME(act_type_find)
#define mt_act_type_free MT_NAME(act_type_free)
#define mt_act_type_is_named MT_NAME(act_type_is_named)
#define mt_act_type_pack MT_NAME(act_type_pack)
#define mt_act_type_unpack MT_NAME(act_type_unpack)
#define mt_act_type_functions MT_NAME(act_type_functions)
/* flatten.c */
#define mt_act_flatten MT_NAME(act_flatten)
/* operation.c */
#define mt_act_check MT_NAME(act_check)
#define mt_act_send MT_NAME(act_send)
#define mt_act_send_bytes MT_NAME(act_send_bytes)
#define mt_act_receive MT_NAME(act_receive)
#define mt_act_receive_message MT_NAME(act_receive_message)
#define mt_act_unpack MT_NAME(act_unpack)
#define mt_act_finish MT_NAME(act_finish)
#define mt_act_status MT_NAME(act_status)
/* left.c */
#define mt_act_ours MT_NAME(act_ours)
#define mt_act_comm_left MT_NAME(act_comm_left)
#define mt_act_left_functions MT_NAME(act_left_functions)
/* verify.c */
#define mt_act_wrong MT_NAME(act_wrong)
/* pool.c */
#define mt_act_request_get MT_NAME(act_request_get)
#define mt_act_request_put MT_NAME(act_request_put)
#define mt_act_request_free MT_NAME(act_request_free)
#define mt_act_request_uses MT_NAME(act_request_uses)
#define mt_act_requests_sweep MT_NAME(act_requests_sweep)
#define mt_act_requests_cancel MT_NAME(act_requests_cancel)
#define mt_act_requests_end MT_NAME(act_requests_end)
/* buffered.c */
#define mt_act_buffered MT_NAME(act_buffered)
#define mt_act_buffered_sweep MT_NAME(act_buffered_sweep)
#define mt_act_buffered_uses MT_NAME(act_buffered_uses)
#define mt_act_buffered_functions MT_NAME(act_buffered_functions)
/* start of requests, in nonblocking.c and persistent.c */
#define mt_act_request_start MT_NAME(act_request_start)
/* one per file of stand-ins */
#define mt_act_send_functions MT_NAME(act_send_functions)
#define mt_act_receive_functions MT_NAME(act_receive_functions)
#define mt_act_both_functions MT_NAME(act_both_functions)
#define mt_act_nonblocking_functions MT_NAME(act_nonblocking_functions)
#define mt_act_persistent_functions MT_NAME(act_persistent_functions)
#define mt_act_probe_functions MT_NAME(act_probe_functions)
#define mt_act_matched_uses MT_NAME(act_matched_uses)
#define mt_act_probe_end MT_NAME(act_probe_end)
#define mt_act_wait_functions MT_NAME(act_wait_functions)
#define mt_act_array_functions MT_NAME(act_array_functions)
#define mt_act_complete MT_NAME(act_complete)
#define mt_act_peek MT_NAME(act_peek)

#endif

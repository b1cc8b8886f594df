// Package memmon watches processes lose memory: it loads a program into the
// kernel (bpf/memmon.bpf.c) that runs at the begin and the end of system calls,
// and serves a Unix socket over which a process asks to be watched and is
// handed its generations (c/include/memhook.h says what they mean):
//
//	server, err := memmon.New(memmon.Options{Socket: memmon.DefaultSocket})
//	if err != nil {
//		return err // says what to grant
//	}
//	return server.Serve(ctx)
//
// It wants root, or three capabilities; the processes want nothing. A
// process that is watched stays watched when the server ends: it holds what
// keeps the kernel program attached. While nobody is watched, no system call of
// the machine is slower.
//
// The package knows nothing of MPI, of registrations, or of who keeps them.
package memmon

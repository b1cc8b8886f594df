package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/mpitrace/mpitrace/internal/memmon"
)

// memorySocketVariable leads ranks to a helper of their job (setting
// memmon_socket).
const memorySocketVariable = "MPITRACE_MEMMON_SOCKET"

// watchMemory sees to it that ranks of this node find somebody who watches their
// memory: the helper of the node or of a job around this one, which they look
// for themselves, or else one in this process, until what it returns is called.
// Without any it says why, and the job runs: its ranks keep no registrations
// then, or ask libucm.
func (j *job) watchMemory() (end func()) {
	for _, path := range []string{os.Getenv(memorySocketVariable), memmon.DefaultSocket} {
		if path != "" && memmon.Served(path) {
			return func() {}
		}
	}
	end, err := j.serveMemory()
	if err != nil {
		j.say("the ranks' memory is not watched by the kernel: %v; or start mpitrace memmon on each node", err)
		return func() {}
	}
	return end
}

// serveMemory begins to serve this user, at a socket of the job's own.
func (j *job) serveMemory() (end func(), err error) {
	dir, err := os.MkdirTemp("", "mpitrace-memmon-")
	if err != nil {
		return nil, fmt.Errorf("folder of its socket: %w", err)
	}
	socket := filepath.Join(dir, "socket")
	s, err := memmon.New(memmon.Options{
		Socket: socket, Mode: 0o600, Users: []uint32{},
		Log: slog.New(slog.NewTextHandler(j.stderr, nil)),
	})
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx) }()
	j.memorySocket = socket
	return func() {
		cancel()
		if err := <-served; err != nil {
			j.say("%v", err)
		}
		os.RemoveAll(dir)
	}, nil
}

package memmon

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"

	"github.com/cilium/ebpf"
)

// watched is a process with a slot.
type watched struct {
	peer        peer
	slot        uint32
	token       uint64
	generations *ebpf.Map
	hold        *os.File // keeps the program attached
}

// newWatched takes a slot for a process and has the kernel expect it.
func (s *Server) newWatched(who peer) (*watched, error) {
	if s.options.Users != nil && who.uid != uint32(os.Geteuid()) && !slices.Contains(s.options.Users, who.uid) {
		return nil, &refusal{resultRefused, fmt.Errorf("process %d is of user %d, who is not served", who.pid, who.uid)}
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, &refusal{resultFailed, err}
	}
	w := &watched{peer: who, token: binary.NativeEndian.Uint64(random[:])}
	if err := s.reserve(w); err != nil {
		return nil, err
	}
	// not under the lock: the kernel waits for running programs, and may do so
	// for many processes at once
	generations, err := s.program.open(w.slot, w.token)
	if err != nil {
		w.hold.Close()
		w.close(s)
		return nil, &refusal{resultFailed, err}
	}
	w.generations = generations
	return w, nil
}

// reserve takes a slot and a hold on the program, which runs from now on.
func (s *Server) reserve(w *watched) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	uid := w.peer.uid
	switch {
	case s.closed:
		return &refusal{resultFailed, errors.New("the helper is ending")}
	case len(s.free) == 0:
		return &refusal{resultFull, fmt.Errorf("%d processes are watched, no more can be", s.options.Processes)}
	case s.users[uid] >= s.options.PerUser:
		return &refusal{resultFull, fmt.Errorf("%d processes of user %d are watched, no more may be", s.options.PerUser, uid)}
	}
	err := s.program.attach()
	if err == nil {
		w.hold, err = s.program.hold()
	}
	if err != nil {
		s.idle()
		return &refusal{resultFailed, err}
	}
	w.slot = s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	s.users[uid]++
	s.stats.Watched++
	return nil
}

// idle detaches the program when nobody is watched; the lock is held.
func (s *Server) idle() {
	if s.stats.Watched == 0 {
		s.program.detach()
	}
}

// wait returns true when the process has ended, or wants to be watched no more,
// and false when ctx ends first: then it must stay watched. A connection that
// is merely closed says nothing: a program may close all its descriptors and
// live on.
func (w *watched) wait(ctx context.Context, conn *net.UnixConn) bool {
	defer w.peer.end.Close()
	over := make(chan struct{}, 2)
	go func() {
		if w.peer.wait() == nil {
			over <- struct{}{}
		}
	}()
	go func() {
		if detaches(conn) {
			over <- struct{}{}
		}
	}()
	select {
	case <-over:
		return true
	case <-ctx.Done():
		return false
	}
}

// detaches reads until the process asks to be let go (true), or says nothing
// more, or nothing that is known (false).
func detaches(conn *net.UnixConn) bool {
	b := make([]byte, requestBytes+1)
	n, err := conn.Read(b)
	if err != nil {
		return false
	}
	kind, _, err := parseRequest(b[:n])
	return err == nil && kind == requestDetach
}

// close gives the slot back.
func (w *watched) close(s *Server) {
	err := s.program.release(w.slot, w.token) // as open, not under the lock
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[w.peer.uid]--
	if s.users[w.peer.uid] == 0 {
		delete(s.users, w.peer.uid)
	}
	s.stats.Watched--
	if err != nil {
		// the slot may still be in use: it is not given to anybody else
		s.options.Log.Error("memory monitor: slot lost", "slot", w.slot, "error", err)
	} else {
		s.free = append(s.free, w.slot)
	}
	s.idle()
}

package presence

import (
	"bufio"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// version of the talk.
const version = 1

// How long a connection may take to say who it is, and to take an answer.
const (
	helloWait  = 10 * time.Second
	answerWait = 5 * time.Second
)

// Server is the rendezvous of one mpitrace run.
type Server struct {
	id, secret string
	listener   net.Listener
	wait       time.Duration
	decided    func(Verdict)
	done       sync.WaitGroup

	mu      sync.Mutex // guards the rest
	worlds  *worlds[net.Conn]
	conns   map[net.Conn]bool
	timer   *time.Timer // nil: nobody waits
	closed  bool
	refused map[string]int // connections by what was wrong with them
}

// Listen opens a rendezvous on all addresses of this host. Each of the two
// steps, reporting and loading, may take the ranks of a world as long as wait.
// decided is called with each verdict before the ranks hear it.
func Listen(wait time.Duration, decided func(Verdict)) (*Server, error) {
	listener, err := net.Listen("tcp", ":0")
	if err != nil {
		return nil, fmt.Errorf("rendezvous of act mode: %w", err)
	}
	s := &Server{
		id: random(8), secret: random(16), listener: listener, wait: wait, decided: decided,
		worlds: newWorlds[net.Conn](wait), conns: map[net.Conn]bool{}, refused: map[string]int{},
	}
	s.done.Add(1)
	go s.accept()
	return s, nil
}

// random is a name of n bytes that nobody can guess.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// Variables are what the ranks need to know, NAME=VALUE.
func (s *Server) Variables() []string {
	port := s.listener.Addr().(*net.TCPAddr).Port
	var places []string
	for _, a := range Addresses() {
		places = append(places, netip.AddrPortFrom(a, uint16(port)).String())
	}
	return []string{
		"MPITRACE_ACT_RENDEZVOUS=" + s.id + "@" + strings.Join(places, ","),
		"MPITRACE_ACT_SECRET=" + s.secret,
		fmt.Sprintf("MPITRACE_ACT_WAIT=%d", int(s.wait/time.Second)),
	}
}

// Addresses are those of this host that others may reach it at: IPv4 first, and
// the loopback last, for hosts that have nothing else.
func Addresses() []netip.Addr {
	var out []netip.Addr
	list, _ := net.InterfaceAddrs()
	for _, entry := range list {
		if prefix, err := netip.ParsePrefix(entry.String()); err == nil && !prefix.Addr().IsLinkLocalUnicast() {
			out = append(out, prefix.Addr())
		}
	}
	rank := func(a netip.Addr) int {
		switch {
		case a.IsLoopback():
			return 2
		case a.Is6():
			return 1
		}
		return 0
	}
	slices.SortStableFunc(out, func(a, b netip.Addr) int { return rank(a) - rank(b) })
	return out
}

func (s *Server) accept() {
	defer s.done.Done()
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(10 * time.Millisecond) // out of descriptors, say
			continue
		}
		s.mu.Lock()
		if s.closed {
			conn.Close()
		}
		s.conns[conn] = true
		s.done.Add(1)
		s.mu.Unlock()
		go func() {
			defer s.done.Done()
			s.serve(conn)
			s.apply(func(time.Time) []answer[net.Conn] { return s.worlds.gone(conn) })
			conn.Close()
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
		}()
	}
}

// serve talks to one rank until there is nothing left to say.
func (s *Server) serve(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(helloWait))
	if _, err := fmt.Fprintf(conn, "mpitrace-presence %d %s\n", version, s.id); err != nil {
		return
	}
	lines := bufio.NewReaderSize(conn, maxLine)
	first, err := readLine(lines)
	if err == errSilent {
		return // a rank that was faster by another address
	}
	if err != nil {
		s.refuse(err)
		return
	}
	r, err := ParseReport(first)
	switch {
	case err != nil:
		s.refuse(errMalformed)
		return
	case subtle.ConstantTimeCompare([]byte(r.Secret), []byte(s.secret)) != 1:
		s.refuse(errSecret)
		return
	}
	_ = conn.SetReadDeadline(time.Time{}) // expire ends the waiting
	s.apply(func(now time.Time) []answer[net.Conn] { return s.worlds.report(conn, r, now) })
	second, err := readLine(lines)
	if err != nil {
		if err != errSilent {
			s.refuse(err)
		}
		return
	}
	word, reason, _ := strings.Cut(second, " ")
	if (word != "loaded" || reason != "") && (word != "refused" || reason == "") {
		s.refuse(errMalformed)
		return
	}
	s.apply(func(time.Time) []answer[net.Conn] { return s.worlds.loaded(conn, reason) })
	_, _ = readLine(lines) // until the rank has heard the verdict and closes
}

// What can be wrong with a connection.
var (
	errSilent    = errors.New("said nothing")
	errMalformed = errors.New("malformed")
	errSecret    = errors.New("wrong secret")
)

// readLine reads a line and drops its break.
func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case err == nil:
		return string(line[:len(line)-1]), nil
	case len(line) == 0:
		return "", errSilent
	}
	return "", errMalformed // too long, or it broke off
}

// refuse counts a connection that is not one of ours.
func (s *Server) refuse(why error) {
	s.mu.Lock()
	s.refused[why.Error()]++
	s.mu.Unlock()
}

// apply does one step and hands out what it says. Lines are short, so that they
// fit into the buffers of a socket that has been told nothing yet.
func (s *Server) apply(step func(now time.Time) []answer[net.Conn]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	known := len(s.worlds.decided)
	// the deadline holds although this process may have stood still behind it: ranks
	// that were told nothing by then go on without
	answers, _ := s.worlds.expire(now)
	answers = append(answers, step(now)...)
	late, next := s.worlds.expire(now)
	for _, v := range s.worlds.decided[known:] {
		s.decided(v)
	}
	for _, a := range append(answers, late...) {
		_ = a.to.SetWriteDeadline(now.Add(answerWait))
		_, _ = io.WriteString(a.to, a.text+"\n")
	}
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if !next.IsZero() && !s.closed {
		s.timer = time.AfterFunc(next.Sub(now), func() {
			s.apply(func(time.Time) []answer[net.Conn] { return nil })
		})
	}
}

// Close ends the rendezvous. Ranks that still wait see that it is gone.
func (s *Server) Close() {
	s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for conn := range s.conns {
		conn.Close()
	}
	s.mu.Unlock()
	s.done.Wait()
}

// Verdicts are those given so far, in order.
func (s *Server) Verdicts() []Verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.worlds.decided)
}

// Refused counts connections by what was wrong with them.
func (s *Server) Refused() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int{}
	for why, n := range s.refused {
		out[why] = n
	}
	return out
}

package presence

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// patience bounds what must happen; nothing is asserted of how soon.
const patience = 5 * time.Minute

// rank is a rank that this test plays.
type rank struct {
	net.Conn
	in *bufio.Reader
}

func start(t *testing.T, wait time.Duration) (*Server, func() []Verdict) {
	t.Helper()
	var mu sync.Mutex
	var heard []Verdict
	s, err := Listen(wait, func(v Verdict) {
		mu.Lock()
		heard = append(heard, v)
		mu.Unlock()
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, func() []Verdict {
		mu.Lock()
		defer mu.Unlock()
		return heard
	}
}

func (s *Server) variable(name string) string {
	for _, entry := range s.Variables() {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// join connects to the last of the addresses, the loopback, and hears the
// greeting.
func join(t *testing.T, s *Server) *rank {
	t.Helper()
	id, places, _ := strings.Cut(s.variable("MPITRACE_ACT_RENDEZVOUS"), "@")
	list := strings.Split(places, ",")
	conn, err := net.Dial("tcp", list[len(list)-1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	r := &rank{conn, bufio.NewReader(conn)}
	if got, want := r.hear(), "mpitrace-presence 1 "+id; got != want {
		t.Fatalf("greeting %q, want %q", got, want)
	}
	return r
}

func (r *rank) say(format string, args ...any) { fmt.Fprintf(r, format+"\n", args...) }

// hear is the next line, or what went wrong.
func (r *rank) hear() string {
	line, err := r.in.ReadString('\n')
	if err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(line, "\n")
}

func (s *Server) sample(number int) Report {
	r := sample(number)
	r.Secret = s.secret
	return r
}

// refusedBy waits until n connections were refused for a reason.
func refusedBy(t *testing.T, s *Server, why error, n int) {
	t.Helper()
	for end := time.Now().Add(patience); s.Refused()[why.Error()] < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("refused: %v, want %d %v", s.Refused(), n, why)
		}
	}
}

func TestServerAct(t *testing.T) {
	s, heard := start(t, patience)
	var ranks []*rank
	for i := range 4 {
		ranks = append(ranks, join(t, s))
		ranks[i].say("%s", s.sample(i))
	}
	for _, r := range ranks {
		if got := r.hear(); got != "go" {
			t.Fatalf("first answer %q", got)
		}
		r.say("loaded")
	}
	for _, r := range ranks {
		if got := r.hear(); got != "go" {
			t.Errorf("second answer %q", got)
		}
	}
	if v := heard(); len(v) != 1 || !v[0].Act || len(s.Verdicts()) != 1 {
		t.Errorf("verdicts %+v and %+v", v, s.Verdicts())
	}
	if n := len(s.Refused()); n != 0 {
		t.Errorf("refused: %v", s.Refused())
	}
}

// TestServerStrangers: what is not a rank of this job is counted, and keeps
// nobody from acting.
func TestServerStrangers(t *testing.T) {
	s, _ := start(t, patience)
	wrong := s.sample(1)
	wrong.Secret = "guess"
	join(t, s).say("%s", wrong)
	refusedBy(t, s, errSecret, 1)
	wrong.Secret = s.secret[:len(s.secret)-1]
	join(t, s).say("%s", wrong)
	refusedBy(t, s, errSecret, 2)
	join(t, s).say("GET / HTTP/1.1")
	refusedBy(t, s, errMalformed, 1)
	join(t, s).say("%s", strings.Repeat("x", 2*maxLine))
	refusedBy(t, s, errMalformed, 2)
	broken := join(t, s)
	io.WriteString(broken, "report\tsecret=") // and no more
	broken.Close()
	refusedBy(t, s, errMalformed, 3)
	join(t, s).Close() // a rank that came by another address: nothing to count
	join(t, s)         // half open: says nothing while the others meet
	var ranks []*rank
	for i := range 4 {
		ranks = append(ranks, join(t, s))
		ranks[i].say("%s", s.sample(i))
	}
	for _, r := range ranks {
		if got := r.hear(); got != "go" {
			t.Errorf("answer %q", got)
		}
	}
	if n := len(s.Refused()); n != 2 {
		t.Errorf("refused: %v, want two kinds", s.Refused())
	}
}

func TestServerMissing(t *testing.T) {
	s, heard := start(t, time.Second)
	r := join(t, s)
	r.say("%s", s.sample(2))
	if got := r.hear(); !strings.HasPrefix(got, "observe ranks 0, 1, 3 of 4 did not report within 1s") {
		t.Errorf("answer %q", got)
	}
	if v := heard(); len(v) != 1 || v[0].Act {
		t.Errorf("verdicts %+v", v)
	}
	late := join(t, s)
	late.say("%s", s.sample(0))
	if got := late.hear(); !strings.HasPrefix(got, "observe ranks 0, 1, 3 ") {
		t.Errorf("late answer %q", got)
	}
}

// TestServerStopped: what a rank says behind the deadline is late, also where the
// server has stood still and hears it before it looks at the clock.
func TestServerStopped(t *testing.T) {
	s, _ := start(t, patience)
	ranks := []*rank{join(t, s), join(t, s)}
	for i, r := range ranks {
		report := s.sample(i)
		report.Size = 2
		r.say("%s", report)
	}
	for _, r := range ranks {
		if got := r.hear(); got != "go" {
			t.Fatalf("first answer %q", got)
		}
	}
	ranks[0].say("loaded")
	for end := time.Now().Add(patience); !s.expireOnce(1); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the server does not hear that a rank has loaded")
		}
	}
	ranks[1].say("loaded")
	for _, r := range ranks {
		if got := r.hear(); !strings.HasPrefix(got, "observe ") {
			t.Errorf("second answer %q", got)
		}
	}
}

// expireOnce lets the deadline of worlds pass of which so many ranks have loaded.
func (s *Server) expireOnce(loaded int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.worlds.open {
		if w.loaded == loaded {
			w.deadline = time.Now()
			return true
		}
	}
	return false
}

// TestServerKilled: a rank that is killed ends the waiting of all.
func TestServerKilled(t *testing.T) {
	s, _ := start(t, patience)
	first, second := join(t, s), join(t, s)
	first.say("%s", s.sample(0))
	second.say("%s", s.sample(1))
	_ = second.Conn.(*net.TCPConn).SetLinger(0)
	second.Close()
	if got := first.hear(); got != "observe rank 1 on nodeb went away before all ranks were there" {
		t.Errorf("answer %q", got)
	}
}

// TestServerNonsenseSecond: a rank that says something else than loaded.
func TestServerNonsenseSecond(t *testing.T) {
	s, _ := start(t, patience)
	r := join(t, s)
	one := s.sample(0)
	one.Size = 1
	r.say("%s", one)
	if got := r.hear(); got != "go" {
		t.Fatalf("answer %q", got)
	}
	r.say("perhaps")
	refusedBy(t, s, errMalformed, 1)
}

// TestServerClose: ranks that wait see the end of mpitrace run.
func TestServerClose(t *testing.T) {
	s, _ := start(t, patience)
	r := join(t, s)
	r.say("%s", s.sample(0))
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		there := len(s.worlds.seats) == 1
		s.mu.Unlock()
		if there {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the report was never read")
		}
	}
	s.Close()
	if got := r.hear(); strings.HasPrefix(got, "go") {
		t.Errorf("answer %q", got)
	}
}

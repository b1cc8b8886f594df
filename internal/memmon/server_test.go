package memmon

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// needMonitor skips a test where the kernel or the privilege is missing, but
// never in CI.
func needMonitor(t testing.TB, err error) {
	t.Helper()
	var n *NotSupportedError
	if errors.As(err, &n) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// serving starts a server that ends with the test.
func serving(t *testing.T, o Options) *Server {
	t.Helper()
	o.Socket = filepath.Join(t.TempDir(), "sub", "memmon.sock")
	o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	if o.Timeout == 0 {
		o.Timeout = patience // of who was connected and gets no processor
	}
	s, err := New(o)
	needMonitor(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return s
}

func dial(t testing.TB, s *Server) *net.UnixConn {
	t.Helper()
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: s.options.Socket, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// client is a process's side of an answer.
type client struct {
	conn   *net.UnixConn
	result result
	token  uint64
	fds    []int
}

func ask(t testing.TB, s *Server, message []byte) client {
	t.Helper()
	c := client{conn: dial(t, s)}
	if _, err := c.conn.Write(message); err != nil {
		t.Fatal(err)
	}
	b, control := make([]byte, 64), make([]byte, 256)
	n, cn, _, _, err := c.conn.ReadMsgUnix(b, control)
	if err != nil || n != answerBytes {
		t.Fatalf("an answer of %d bytes: %v", n, err)
	}
	c.result = result(binary.NativeEndian.Uint16(b[6:]))
	c.token = binary.NativeEndian.Uint64(b[16:])
	messages, err := unix.ParseSocketControlMessage(control[:cn])
	if err != nil {
		t.Fatal(err)
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			t.Fatal(err)
		}
		c.fds = append(c.fds, fds...)
	}
	t.Cleanup(func() {
		for _, fd := range c.fds {
			unix.Close(fd)
		}
	})
	return c
}

// attach presents the token and maps the generations.
func (c client) attach(t testing.TB) []uint64 {
	t.Helper()
	bytes, err := unix.Mmap(c.fds[0], 0, 8*buckets, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(bytes) })
	present(c.token)
	return unsafe.Slice((*uint64)(unsafe.Pointer(&bytes[0])), buckets)
}

func present(token uint64) {
	const adviceAttach = 0x6d70696d
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(token), 0, adviceAttach)
	if errno != unix.EINVAL {
		panic("a kernel that knows our advice")
	}
}

func (s *Server) attached() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.program.attached)
}

func sum(generations []uint64) (n uint64) {
	for _, g := range generations {
		n += g
	}
	return n
}

func lose(t testing.TB) {
	t.Helper()
	b, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err == nil {
		err = unix.Munmap(b)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// patience bounds every wait of these tests.
const patience = 2 * time.Minute

// eventually waits for something that another goroutine does.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if f() {
			return
		}
	}
	t.Errorf("%v passed and not: %s", patience, what)
}

func TestWatch(t *testing.T) {
	s := serving(t, Options{})
	c := ask(t, s, request(requestWatch))
	if c.result != resultOK || len(c.fds) != 2 {
		t.Fatalf("result %d, %d descriptors", c.result, len(c.fds))
	}
	g := c.attach(t)
	before := sum(g)
	lose(t)
	if sum(g) == before {
		t.Error("a page was unmapped and no generation changed")
	}
	other := ask(t, s, request(requestWatch))
	og := other.attach(t)
	before = sum(g)
	lose(t)
	if sum(og) != 0 || sum(g) == before {
		t.Error("a second copy in one process took over")
	}
	eventually(t, "both counted", func() bool {
		st := s.Statistics()
		return st.Watched == 2 && st.Answered == 2
	})
	for _, x := range []client{c, other} {
		if _, err := x.conn.Write(request(requestDetach)); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "both let go", func() bool { return s.Statistics().Watched == 0 })
	after := sum(g)
	lose(t)
	if sum(g) != after {
		t.Error("still watched")
	}
	if s.attached() != 0 {
		t.Error("the program is attached for nobody")
	}
	again := ask(t, s, request(requestWatch)).attach(t)
	lose(t)
	if sum(again) == 0 {
		t.Error("not watched the second time")
	}
}

// TestTokenCountsOnce: a token of nobody, or one used before, changes nothing.
func TestTokenCountsOnce(t *testing.T) {
	s := serving(t, Options{})
	c := ask(t, s, request(requestWatch))
	present(c.token + 1) // nobody's
	g := c.attach(t)
	present(c.token)
	lose(t)
	if sum(g) == 0 {
		t.Error("not watched")
	}
}

func TestBadRequests(t *testing.T) {
	s := serving(t, Options{})
	for name, m := range map[string][]byte{
		"garbage": []byte("GET / HTTP/1.1"), "short": {1}, "detach first": request(requestDetach), "long": make([]byte, 5000),
	} {
		if c := ask(t, s, m); c.result != resultMalformed || len(c.fds) != 0 {
			t.Errorf("%s: result %d, %d descriptors", name, c.result, len(c.fds))
		}
	}
	if c := ask(t, s, changed(request(requestWatch), 4)); c.result != resultOtherVersion {
		t.Errorf("another version: result %d", c.result)
	}
	if st := s.Statistics(); st.Malformed != 5 || st.Watched != 0 {
		t.Errorf("%+v", st)
	}
}

// TestSilent: who says nothing does not keep others out, also not many of them.
func TestSilent(t *testing.T) {
	s := serving(t, Options{Timeout: time.Second})
	for range 2 * connections {
		dial(t, s)
	}
	if c := ask(t, s, request(requestWatch)); c.result != resultOK {
		t.Errorf("result %d", c.result)
	}
	eventually(t, "all silent ones counted", func() bool { return s.Statistics().Silent == 2*connections })
}

func TestLimits(t *testing.T) {
	s := serving(t, Options{Processes: 2})
	first := ask(t, s, request(requestWatch))
	ask(t, s, request(requestWatch))
	if c := ask(t, s, request(requestWatch)); c.result != resultFull {
		t.Errorf("the third of two: result %d", c.result)
	}
	if _, err := first.conn.Write(request(requestDetach)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "one let go", func() bool { return s.Statistics().Watched == 1 })
	if c := ask(t, s, request(requestWatch)); c.result != resultOK {
		t.Errorf("after one left: result %d", c.result)
	}
	if s := serving(t, Options{PerUser: 1}); ask(t, s, request(requestWatch)).result != resultOK || ask(t, s, request(requestWatch)).result != resultFull {
		t.Error("the limit of a user does not hold")
	}
}

// TestProcess is the other process of TestUsersAndEnds.
func TestProcess(t *testing.T) {
	path := os.Getenv("MEMMON_TEST_SOCKET")
	if path == "" {
		return // it is not one
	}
	s := &Server{options: Options{Socket: path}}
	c := ask(t, s, request(requestWatch))
	os.Stdout.WriteString("result " + string('0'+rune(c.result)) + "\n")
	if _, err := io.ReadAll(os.Stdin); err != nil {
		t.Fatal(err)
	}
}

// other starts TestProcess as another user and returns what it was told.
func other(t *testing.T, s *Server) (cmd *exec.Cmd, said string) {
	t.Helper()
	exe := filepath.Join(t.TempDir(), "test")
	binary, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(exe, binary, 0o755)
	}
	for dir := filepath.Dir(exe); err == nil && dir != os.TempDir(); dir = filepath.Dir(dir) {
		err = os.Chmod(dir, 0o755)
	}
	for dir := filepath.Dir(s.options.Socket); err == nil && dir != os.TempDir(); dir = filepath.Dir(dir) {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd = exec.Command(exe, "-test.run", "^TestProcess$")
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "MEMMON_TEST_SOCKET="+s.options.Socket)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	b := make([]byte, len("result 0\n"))
	if _, err := io.ReadFull(out, b); err != nil {
		t.Fatal(err)
	}
	return cmd, strings.TrimSpace(string(b))
}

// TestUsersAndEnds: another user is served unless the options say otherwise, and
// its slot is free when it was killed.
func TestUsersAndEnds(t *testing.T) {
	s := serving(t, Options{})
	cmd, said := other(t, s)
	if said != "result 0" || s.Statistics().Watched != 1 {
		t.Errorf("%s, %+v", said, s.Statistics())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the killed one's slot free", func() bool { return s.Statistics().Watched == 0 })
	s = serving(t, Options{Users: []uint32{12345}})
	if _, said := other(t, s); said != "result 3" {
		t.Errorf("a user who is not served: %s", said)
	}
	if st := s.Statistics(); st.Refused != 1 || st.Watched != 0 {
		t.Errorf("%+v", st)
	}
}

// TestMany: processes come and go at once.
func TestMany(t *testing.T) {
	s := serving(t, Options{Processes: 200})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				c := ask(t, s, request(requestWatch))
				if _, err := c.conn.Write(request(requestDetach)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	eventually(t, "all gone", func() bool { return s.Statistics().Watched == 0 })
	eventually(t, "all slots free", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.free) == 200
	})
	if n := s.attached(); n != 0 {
		t.Errorf("%d programs attached for nobody", n)
	}
}

func TestSocketTaken(t *testing.T) {
	s := serving(t, Options{})
	if _, err := New(Options{Socket: s.options.Socket}); err == nil || !strings.Contains(err.Error(), "another helper") {
		t.Errorf("a second helper: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Socket: file}); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file in the way: %v", err)
	}
	if _, err := New(Options{Processes: -1}); err == nil {
		t.Error("a negative number of processes was accepted")
	}
}

func TestExplain(t *testing.T) {
	for _, test := range []struct {
		err  error
		want string
	}{
		{unix.EPERM, "CAP_BPF"},
		{os.ErrNotExist, "CONFIG_FTRACE_SYSCALLS"},
		{btf.ErrNotSupported, "CONFIG_DEBUG_INFO_BTF"},
		{unix.ENOSYS, "Linux 5.15"},
	} {
		err := explain(test.err)
		var n *NotSupportedError
		if !errors.As(err, &n) || !strings.Contains(err.Error(), test.want) || !errors.Is(err, test.err) {
			t.Errorf("%v: %v", test.err, err)
		}
	}
}

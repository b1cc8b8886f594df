package memmon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Options say whom a server serves. The zero value is fine.
type Options struct {
	Socket string      // path of the Unix socket, default DefaultSocket
	Mode   fs.FileMode // of the socket, default 0666: everybody may ask

	// Users are the user ids that are served besides that of the server; nil
	// means everybody.
	Users []uint32

	Processes int           // watched at once, 1 to 65536, default 4096, fewer if no more can be
	PerUser   int           // of those, of one user, default all
	Timeout   time.Duration // for a request to arrive, default 2 s
	Log       *slog.Logger  // default slog.Default()
}

// connections is how many may be open beside those of watched processes: what
// connects and says nothing must not use up descriptors.
const connections = 64

const (
	defaultProcesses = 4096
	mostProcesses    = 65536
)

func (o Options) withDefaults() (Options, error) {
	if o.Socket == "" {
		o.Socket = DefaultSocket
	}
	if o.Mode == 0 {
		o.Mode = 0o666
	}
	asked := o.Processes != 0
	if !asked {
		o.Processes = defaultProcesses
	}
	if o.PerUser == 0 {
		o.PerUser = o.Processes
	}
	if o.Timeout == 0 {
		o.Timeout = 2 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Processes < 1 || o.Processes > mostProcesses || o.PerUser < 1 {
		return o, fmt.Errorf("memory monitor: %d processes, %d of a user: from 1 to %d can be watched", o.Processes, o.PerUser, mostProcesses)
	}
	most, limit, err := watchable()
	if err != nil {
		return o, err
	}
	if o.Processes > most {
		if asked { // else nobody expects so many
			o.Log.Warn(fmt.Sprintf("memory monitor: only %d processes can be watched at once, not %d: each takes %d of the limit of open files, which is %d (LimitNOFILE of a service, ulimit -n)", most, o.Processes, holds(), limit.Cur))
		}
		o.Processes = most
	}
	return o, nil
}

// Statistics are counts since the server began, but Watched, which is now.
type Statistics struct {
	Watched   int    // processes
	Answered  uint64 // requests of processes that were given what they need
	Malformed uint64 // requests that are none, or of another version
	Refused   uint64 // requests of users that are not served, or beyond a limit
	Silent    uint64 // connections that sent no request in time
	Failed    uint64 // requests that met an error here
}

// Server watches the processes that ask for it.
type Server struct {
	options  Options
	listener *net.UnixListener

	mu      sync.Mutex // guards all below
	program *program
	free    []uint32       // slots
	users   map[uint32]int // watched processes of each user
	stats   Statistics
	closed  bool

	busy sync.WaitGroup // one for each connection
}

// New loads the kernel program and begins to listen. The error says what is
// missing; a *NotSupportedError is about this machine.
func New(options Options) (*Server, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	p, err := load(o.Processes)
	if err != nil {
		return nil, err
	}
	l, err := listen(o.Socket, o.Mode)
	if err != nil {
		p.close()
		return nil, err
	}
	s := &Server{options: o, listener: l, program: p, users: map[uint32]int{}}
	for slot := o.Processes - 1; slot >= 0; slot-- {
		s.free = append(s.free, uint32(slot))
	}
	return s, nil
}

// Serve is New and Server.Serve: it returns when ctx ends, or cannot begin.
func Serve(ctx context.Context, options Options) error {
	s, err := New(options)
	if err != nil {
		return err
	}
	return s.Serve(ctx)
}

// Served reports whether a helper serves at path.
func Served(path string) bool {
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// listen takes the place of a socket that nobody serves any more.
func listen(path string, mode fs.FileMode) (*net.UnixListener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("memory monitor: %w", err)
	}
	address := &net.UnixAddr{Name: path, Net: "unixpacket"}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode().Type() != fs.ModeSocket {
			return nil, fmt.Errorf("memory monitor: %s is there and is not a socket: choose another path", path)
		}
		if Served(path) {
			return nil, fmt.Errorf("memory monitor: another helper serves %s", path)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("memory monitor: %w", err)
		}
	}
	l, err := net.ListenUnix("unixpacket", address)
	if err != nil {
		return nil, fmt.Errorf("memory monitor: %w", err)
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, fmt.Errorf("memory monitor: %w", err)
	}
	return l, nil
}

// Statistics are the counts now.
func (s *Server) Statistics() Statistics {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Serve answers until ctx ends; then it lets go of everything. Processes that
// are watched stay watched until they end.
func (s *Server) Serve(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { s.listener.Close() })
	defer stop()
	room := make(chan struct{}, connections)
	var failed error
	for failed == nil {
		room <- struct{}{} // each place is given back within the timeout
		conn, err := s.listener.AcceptUnix()
		switch {
		case err == nil:
			s.busy.Add(1)
			go func() {
				defer s.busy.Done()
				s.serve(ctx, conn, func() { <-room })
			}()
		case ctx.Err() != nil:
			failed = ctx.Err()
		case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ECONNABORTED):
			s.options.Log.Warn("memory monitor: cannot accept", "error", err)
			<-room
			pause(ctx, 100*time.Millisecond)
		default:
			failed = fmt.Errorf("memory monitor: %w", err)
		}
	}
	s.listener.Close()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	cancel()
	s.busy.Wait()
	s.program.close()
	if errors.Is(failed, context.Canceled) || errors.Is(failed, context.DeadlineExceeded) {
		return nil
	}
	return failed
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// serve is the life of a connection: one request, its answer, then until the
// process ends. leave is called when the connection is not new any more.
func (s *Server) serve(ctx context.Context, conn *net.UnixConn, leave func()) {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	w, err := s.watch(conn)
	leave()
	if err != nil {
		s.options.Log.Info("memory monitor: request refused", "error", err)
		return
	}
	if w.wait(ctx, conn) {
		w.close(s)
	}
}

// refusal is an error with what the process is told about it.
type refusal struct {
	result result
	err    error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// watch reads the request of a connection and answers it.
func (s *Server) watch(conn *net.UnixConn) (*watched, error) {
	if err := s.readRequest(conn); err != nil {
		return nil, s.refuse(conn, err)
	}
	who, err := peerOf(conn)
	if err != nil {
		return nil, s.refuse(conn, &refusal{resultFailed, err})
	}
	w, err := s.newWatched(who)
	if err != nil {
		who.end.Close()
		return nil, s.refuse(conn, err)
	}
	if err := hand(conn, w, s.options.Timeout); err != nil {
		who.end.Close()
		w.close(s)
		return nil, s.refuse(conn, err)
	}
	s.count(func(c *Statistics) { c.Answered++ })
	return w, nil
}

// readRequest expects a request to be watched. Descriptors that came with it
// are closed by the kernel, as nothing is provided to receive them.
func (s *Server) readRequest(conn *net.UnixConn) error {
	if err := conn.SetReadDeadline(time.Now().Add(s.options.Timeout)); err != nil {
		return &refusal{resultFailed, err}
	}
	b := make([]byte, requestBytes+1)
	n, err := conn.Read(b)
	if err != nil {
		s.count(func(c *Statistics) { c.Silent++ })
		return fmt.Errorf("no request: %w", err)
	}
	kind, r, err := parseRequest(b[:n])
	if err == nil && kind != requestWatch {
		r, err = resultMalformed, fmt.Errorf("a first request of type %d", kind)
	}
	if err != nil {
		return &refusal{r, err}
	}
	return nil
}

// refuse counts an error and tells the process, if there is something to tell.
func (s *Server) refuse(conn *net.UnixConn, err error) error {
	var r *refusal
	if !errors.As(err, &r) {
		return err
	}
	s.count(func(c *Statistics) {
		switch r.result {
		case resultMalformed, resultOtherVersion:
			c.Malformed++
		case resultRefused, resultFull:
			c.Refused++
		default:
			c.Failed++
		}
	})
	_ = conn.SetWriteDeadline(time.Now().Add(s.options.Timeout))
	_, _ = conn.Write(answer{result: r.result}.encode()) // it may be gone: then nobody misses the answer
	return err
}

func (s *Server) count(f func(*Statistics)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.stats)
}

// hand sends what the process needs. Once it has that it must stay watched, so
// nothing may fail afterwards.
func hand(conn *net.UnixConn, w *watched, timeout time.Duration) error {
	defer w.generations.Close() // the kernel keeps it in the map of slots
	defer w.hold.Close()
	err := conn.SetReadDeadline(time.Time{}) // from now on it may be silent
	if err == nil {
		err = conn.SetWriteDeadline(time.Now().Add(timeout))
	}
	if err == nil {
		fds := []int{w.generations.FD(), int(w.hold.Fd())}
		_, _, err = conn.WriteMsgUnix(answer{resultOK, w.token, len(fds)}.encode(), unix.UnixRights(fds...), nil)
	}
	if err != nil {
		return &refusal{resultFailed, fmt.Errorf("process %d: %w", w.peer.pid, err)}
	}
	return nil
}

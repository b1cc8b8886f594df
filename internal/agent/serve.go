package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mpitrace/mpitrace/exporter"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"
)

// unixScheme begins the address of a socket in the file system.
const unixScheme = "unix:"

// check settles the addresses, and refuses to show one user's jobs to others
// unless AllUsers says so.
func (o *Options) check(places []place) error {
	if len(o.Listen) == 0 {
		o.Listen = []string{unixScheme + defaultSocket(places)}
	}
	if err := web.Validate(o.WebConfig); err != nil {
		return fmt.Errorf("--web.config.file %s: %s", o.WebConfig, strings.Join(strings.Fields(err.Error()), " "))
	}
	if o.TextfileDir != "" && !o.AllUsers {
		return errors.New("--textfile-dir: everybody on this machine can read the file: say --all-users if they may see all jobs in it")
	}
	if o.TextfileDir != "" {
		info, err := os.Stat(o.TextfileDir)
		switch {
		case err != nil:
			return fmt.Errorf("--textfile-dir: %w", err)
		case !info.IsDir():
			return fmt.Errorf("--textfile-dir %s: not a directory", o.TextfileDir)
		case unix.Access(o.TextfileDir, unix.W_OK|unix.X_OK) != nil:
			return fmt.Errorf("--textfile-dir %s: may not be written to", o.TextfileDir)
		}
	}
	for _, address := range o.Listen {
		if !strings.HasPrefix(address, unixScheme) && !o.AllUsers && !demandsPassword(o.WebConfig) {
			return fmt.Errorf("--web.listen-address %s: everybody who can connect would see all jobs: demand a password or a client certificate (--web.config.file), or say --all-users if that is meant", address)
		}
	}
	return nil
}

// defaultSocket is where root's agent listens, and where that of a user does.
func defaultSocket(places []place) string {
	if os.Geteuid() == 0 {
		return "/run/mpitrace/agent.sock"
	}
	return filepath.Join(places[0].parent, places[0].pattern, "agent.sock")
}

// demandsPassword tells whether a web configuration lets nobody in without a
// password or a certificate.
func demandsPassword(file string) bool {
	text, err := os.ReadFile(file)
	var c struct {
		Users map[string]string `yaml:"basic_auth_users"`
		TLS   struct {
			ClientAuth string `yaml:"client_auth_type"`
		} `yaml:"tls_server_config"`
	}
	if err != nil || yaml.Unmarshal(text, &c) != nil {
		return false
	}
	return len(c.Users) > 0 || c.TLS.ClientAuth == "RequireAndVerifyClientCert"
}

// connectionsMost bounds the connections of one address.
const connectionsMost = 64

// listener accepts a bounded number of connections.
type listener struct {
	net.Listener
	local bool // a socket in the file system: the kernel tells who connects
	slots chan struct{}
}

// connection gives its slot back when it is closed.
type connection struct {
	net.Conn
	release func()
}

func (c *connection) Close() error {
	c.release()
	return c.Conn.Close()
}

func (l *listener) Accept() (net.Conn, error) {
	l.slots <- struct{}{}
	release := sync.OnceFunc(func() { <-l.slots })
	c, err := l.Listener.Accept()
	if err != nil {
		release()
		return nil, err
	}
	return &connection{c, release}, nil
}

// listen opens an address.
func listen(address string) (*listener, error) {
	path, local := strings.CutPrefix(address, unixScheme)
	var inner net.Listener
	var err error
	if local {
		inner, err = listenSocket(path)
	} else {
		inner, err = net.Listen("tcp", address)
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return nil, fmt.Errorf("--web.listen-address %s: something listens there already, perhaps another agent: end it or choose another address", address)
	}
	if err != nil {
		return nil, fmt.Errorf("--web.listen-address %s: %w", address, err)
	}
	return &listener{inner, local, make(chan struct{}, connectionsMost)}, nil
}

// listenSocket makes a socket, in place of one that nobody listens to any more.
// That of root is for all users, each of whom sees the own jobs.
func listenSocket(path string) (net.Listener, error) {
	mode, directory := os.FileMode(0o600), os.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode, directory = 0o666, 0o755
	}
	if err := os.MkdirAll(filepath.Dir(path), directory); err != nil {
		return nil, err
	}
	// In the directory of another user somebody else could answer in its place.
	if info, err := os.Stat(filepath.Dir(path)); err != nil {
		return nil, err
	} else if uid := info.Sys().(*syscall.Stat_t).Uid; uid != 0 && uid != uint32(os.Geteuid()) {
		return nil, fmt.Errorf("the directory belongs to user %d: choose another", uid)
	}
	l, err := net.Listen("unix", path)
	if errors.Is(err, unix.EADDRINUSE) {
		c, dialled := net.DialTimeout("unix", path, time.Second)
		if dialled == nil {
			c.Close()
			return nil, err
		}
		info, statErr := os.Lstat(path)
		if statErr != nil || info.Mode().Type() != os.ModeSocket || !errors.Is(dialled, unix.ECONNREFUSED) {
			return nil, err
		}
		if err := os.Remove(path); err != nil {
			return nil, err
		}
		l, err = net.Listen("unix", path)
	}
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		l.Close()
		return nil, err
	}
	return l, nil
}

type peerKey struct{}

// peerOf asks the kernel who has connected.
func peerOf(ctx context.Context, c net.Conn) context.Context {
	inner, ok := c.(*connection)
	if !ok {
		return ctx
	}
	socket, ok := inner.Conn.(syscall.Conn)
	if !ok {
		return ctx
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return ctx
	}
	var peer *unix.Ucred
	if raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }) != nil || err != nil {
		return ctx
	}
	return context.WithValue(ctx, peerKey{}, peer.Uid)
}

// viewer tells what a request may see; false: nothing.
func (a *Agent) viewer(l *listener, r *http.Request) (viewer, bool) {
	self := uint32(os.Geteuid())
	if !l.local {
		return viewer{all: a.options.AllUsers, uid: self}, a.options.AllUsers || demandsPassword(a.options.WebConfig)
	}
	uid, known := r.Context().Value(peerKey{}).(uint32)
	return viewer{all: a.options.AllUsers || uid == 0 || uid == self, uid: uid}, known
}

// serve serves one address until the context ends.
func (a *Agent) serve(ctx context.Context, l *listener) error {
	server := &http.Server{
		Handler: a.handler(l), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute,
		IdleTimeout: 5 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(a.options.Log.Handler(), slog.LevelDebug),
	}
	stop := context.AfterFunc(ctx, func() {
		within, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = server.Shutdown(within) // connections that are not done by then are cut
		_ = server.Close()
	})
	defer stop()
	config := a.options.WebConfig
	if l.local {
		config = ""
		server.ConnContext = peerOf
		server.SetKeepAlivesEnabled(false) // nobody keeps others out by staying
	}
	err := web.Serve(l, server, &web.FlagConfig{WebConfigFile: &config}, a.options.Log)
	if errors.Is(err, http.ErrServerClosed) || ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("%s: %w", l.Addr(), err)
}

// handler is /metrics and a page that leads there.
func (a *Agent) handler(l *listener) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) { a.metrics(l, w, r) })
	landing, err := web.NewLandingPage(web.LandingConfig{
		Name: "mpitrace agent", Description: "MPI jobs of this node", Version: a.options.Version,
		Links: []web.LandingLinks{
			{Address: "/metrics", Text: "Metrics"},
			{Address: "/metrics?ranks=all", Text: "Metrics of every rank"},
		},
	})
	if err == nil {
		mux.Handle("GET /{$}", landing)
	}
	return mux
}

// metrics answers one scrape.
func (a *Agent) metrics(l *listener, w http.ResponseWriter, r *http.Request) {
	v, ok := a.viewer(l, r)
	if !ok {
		http.Error(w, "who reads this page is not known, and it is not for everybody (--all-users)", http.StatusForbidden)
		return
	}
	worst := a.options.Worst
	if r.URL.Query().Get("ranks") == "all" {
		worst = -1
	}
	page, delivered := a.keeper.page(v, &a.users, a.options.Node, worst)
	registry := prometheus.NewRegistry()
	registry.MustRegister(exporter.Exporter{Page: page}, a.process)
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		EnableOpenMetrics: true, ErrorHandling: promhttp.ContinueOnError, ErrorLog: slog.NewLogLogger(a.options.Log.Handler(), slog.LevelWarn),
	}).ServeHTTP(w, r)
	if r.Method == http.MethodGet && r.Context().Err() == nil {
		delivered()
	}
}

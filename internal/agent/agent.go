package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Options of New. The zero value serves the own jobs, as root those of all
// users, on a socket that tells each reader only of the own ones.
type Options struct {
	// SegmentDirs are base directories, in the last element also patterns;
	// empty: where libmpishim.so puts its segments.
	SegmentDirs []string
	// Listen are addresses: host:port, or unix:PATH; empty: one socket.
	Listen []string
	// WebConfig is a file with TLS and passwords, as of all exporters of
	// Prometheus; empty: neither. It holds for TCP.
	WebConfig string
	// AllUsers says that whoever can read a page may see the jobs of all users.
	AllUsers bool
	// Worst is how many ranks of each job are shown by themselves.
	Worst int
	// Keep is how long a job stays on the page after its end at least.
	Keep time.Duration
	// TextfileDir is where mpitrace.prom is written for node_exporter every
	// TextfileEvery; empty: nowhere.
	TextfileDir   string
	TextfileEvery time.Duration

	Node    string // label node; empty: the host name
	Version string
	Log     *slog.Logger

	now func() time.Time // the clock, for tests; nil: time.Now
}

// Agent watches the jobs of this node.
type Agent struct {
	options   Options
	keeper    *keeper
	users     users
	process   prometheus.Collector
	listeners []*listener
}

// New looks for jobs and opens the addresses; Run serves them. The error says
// what cannot be done and how to mend it.
func New(o Options) (*Agent, error) {
	if o.Node == "" {
		name, err := os.Hostname()
		if err != nil {
			return nil, fmt.Errorf("the name of this host: %w", err)
		}
		o.Node = name
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.Keep, o.TextfileEvery = cmp.Or(o.Keep, time.Minute), cmp.Or(o.TextfileEvery, 15*time.Second)
	places, err := placesOf(o.SegmentDirs, os.Geteuid())
	if err != nil {
		return nil, err
	}
	if err := o.check(places); err != nil {
		return nil, err
	}
	k, err := newKeeper(places, o.Keep, o.Log)
	if err != nil {
		return nil, err
	}
	k.stats.Version = o.Version
	if o.now != nil {
		k.now = o.now
	}
	a := &Agent{options: o, keeper: k, process: collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})}
	for _, address := range o.Listen {
		l, err := listen(address)
		if err != nil {
			return nil, errors.Join(err, a.close())
		}
		a.listeners = append(a.listeners, l)
	}
	k.begin()
	return a, nil
}

// Addresses are the addresses that are served, with the port that was chosen
// where 0 was asked for.
func (a *Agent) Addresses() []string {
	var out []string
	for _, l := range a.listeners {
		out = append(out, l.Addr().String())
	}
	return out
}

// every is how often the agent looks around by itself.
const every = 15 * time.Second

// Run serves until the context ends, which is no error, or until it cannot
// serve any more.
func (a *Agent) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var running sync.WaitGroup
	running.Go(a.keeper.follow)
	running.Go(func() { a.attend(ctx) })
	if a.options.TextfileDir != "" {
		running.Go(func() { a.writeTextfiles(ctx) })
	}
	for _, l := range a.listeners {
		running.Go(func() {
			if err := a.serve(ctx, l); err != nil {
				stop(err)
			}
		})
	}
	<-ctx.Done()
	err := a.close()
	running.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		err = errors.Join(cause, err)
	}
	return err
}

// attend reads what was removed, compares arrivals, and looks around.
func (a *Agent) attend(ctx context.Context) {
	const together = 20 * time.Millisecond // the segments of a job go one by one
	k := a.keeper
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.changed:
			time.Sleep(together)
			k.readGone()
		case <-tick.C:
			k.mu.Lock()
			k.scan()
			k.mu.Unlock()
			k.read(every)
			k.retire()
		}
		k.compare()
	}
}

func (a *Agent) close() error {
	err := a.keeper.close()
	for _, l := range a.listeners {
		if e := l.Close(); e != nil && !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}
	return err
}

package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/mpitrace/mpitrace/internal/agent"
	"github.com/spf13/cobra"
)

func newAgentCommand() *cobra.Command {
	var o agent.Options
	var verbose bool
	c := &cobra.Command{
		Use:   "agent [options]",
		Short: "Show the jobs of this node to Prometheus",
		Long: `Watch the MPI jobs that run under mpitrace on this node and serve their figures
at /metrics, one agent per node. As an ordinary user it sees the own jobs, as root
those of all users. Jobs of a fraction of a second are seen too, and stay on the
page for --keep after their end.

Without --web.listen-address it listens on a socket, where the kernel tells who
reads: users see their own jobs, root sees all. A TCP address is read by whoever
can connect, so it wants a password or a client certificate (--web.config.file),
and then shows the jobs of the agent's own user; with --all-users it shows all
jobs to all readers. docs/agent.md has a set-up for a site.`,
		Example: `  mpitrace agent --web.listen-address :9464 --web.config.file web.yml --all-users
  mpitrace agent --all-users --textfile-dir /var/lib/prometheus/node-exporter
  curl --unix-socket /run/mpitrace/agent.sock http://localhost/metrics?ranks=all`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Keep <= 0 || o.TextfileEvery <= 0 || o.Worst < 0 {
				return errors.New("--keep, --textfile-interval and --worst must not be negative, and the times not 0")
			}
			o.Version, o.Log = programVersion(), agentLog(c.ErrOrStderr(), verbose)
			return runAgent(c, o)
		},
	}
	f := c.Flags()
	f.StringArrayVar(&o.Listen, "web.listen-address", nil, "host:port or unix:PATH, may be given more than once; default a socket of its own")
	f.StringVar(&o.WebConfig, "web.config.file", "", "TLS, passwords and client certificates, as of all Prometheus exporters")
	f.BoolVar(&o.AllUsers, "all-users", false, "whoever can read a page may see the jobs of all users")
	f.StringArrayVar(&o.SegmentDirs, "segment-dir", nil, "where the segments live, may be a pattern and given more than once (default as for run; as root of all users)")
	f.IntVar(&o.Worst, "worst", 3, "ranks of each job to show by themselves: those that others wait for most")
	f.DurationVar(&o.Keep, "keep", time.Minute, "how long a job stays on the page after its end, ten times as long if nobody reads it")
	f.StringVar(&o.TextfileDir, "textfile-dir", "", "also write mpitrace.prom for node_exporter here")
	f.DurationVar(&o.TextfileEvery, "textfile-interval", 15*time.Second, "how often to write it")
	f.BoolVarP(&verbose, "verbose", "v", false, "also say which files are refused and why")
	return c
}

func agentLog(w io.Writer, verbose bool) *slog.Logger {
	level := slog.LevelInfo
	if verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: level}))
}

// runAgent serves until it is told to end.
func runAgent(c *cobra.Command, o agent.Options) error {
	ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	a, err := agent.New(o)
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	fmt.Fprintf(c.ErrOrStderr(), "mpitrace: agent: serving /metrics at %s\n", strings.Join(a.Addresses(), ", "))
	if err := a.Run(ctx); err != nil {
		return failed(c.ErrOrStderr(), "agent", err)
	}
	return nil
}

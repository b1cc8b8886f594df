package main

import (
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"

	"github.com/mpitrace/mpitrace/internal/memmon"
	"github.com/spf13/cobra"
)

func newMemmonCommand() *cobra.Command {
	var o memmon.Options
	var users []uint
	c := &cobra.Command{
		Use:   "memmon [--socket PATH] [--user UID,...]",
		Short: "Let processes of this machine see their memory go away",
		Long: `Load a program into the kernel that counts, for every process that asks, when
memory at an address is unmapped, moved or replaced, and hand the counts to the
process. With them a registration of memory can be kept and used again safely.
docs/memory-monitor.md says what is seen and what it costs.

Run it as root, or with CAP_BPF, CAP_PERFMON and CAP_DAC_READ_SEARCH, once on
each node. It ends with
SIGINT or SIGTERM; processes that are watched stay watched until they end.`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, u := range users {
				o.Users = append(o.Users, uint32(u))
			}
			o.Log = slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
			ctx, stop := signal.NotifyContext(c.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			s, err := memmon.New(o)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "mpitrace: memory monitor at %s\n", o.Socket)
			return s.Serve(ctx)
		},
	}
	c.Flags().StringVar(&o.Socket, "socket", memmon.DefaultSocket, "where processes ask")
	c.Flags().UintSliceVar(&users, "user", nil, "serve only these user ids, and one's own")
	c.Flags().IntVar(&o.Processes, "processes", 4096, "how many may be watched at once")
	c.Flags().IntVar(&o.PerUser, "per-user", 0, "how many of those of one user (default all)")
	return c
}

package runtime_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestRules: each message travels as the rules say that are for it, which shows in
// the counts because there are so many of each kind: see testdata/rules.c.
func TestRules(t *testing.T) {
	const (
		unnamed, named, long, short, small, middle, persistent = 1, 2, 4, 8, 16, 32, 64
		all                                                    = unnamed + named + long + short + small + middle + persistent
	)
	each(t, func(t *testing.T, m mpijob.MPI) {
		for name, c := range map[string]struct {
			rules          string
			eager, written int64
		}{
			"none":              {``, short + small, 0},
			"communicator":      {`{"when": {"communicator": "bulk*"}, "use": {"rendezvous": "write"}}`, short + small, named},
			"world":             {`{"when": {"communicator": "MPI_COMM_WORLD"}, "use": {"rendezvous": "write"}}`, short + small, long + middle + persistent},
			"communicator_size": {`{"when": {"communicator_size": "3.."}, "use": {"eager_limit": 10}}`, short + small, 0},
			"size":              {`{"when": {"size": "30000..40000"}, "use": {"eager_limit": "64K"}}`, short + small + middle + persistent, 0},
			"operation":         {`{"when": {"operation": "persistent"}, "use": {"eager_limit": "64K"}}`, short + small + persistent, 0},
			"same-node":         {`{"when": {"peer": "same-node", "size": "1M.."}, "use": {"rendezvous": "write"}}`, short + small, unnamed + named + long},
			"other-node":        {`{"when": {"peer": "other-node"}, "use": {"rendezvous": "write"}}`, short + small, 0},
			"site":              {`{"when": {"site": "exchange_*"}, "use": {"eager_limit": "1K", "rendezvous": "write"}}`, short, small},
			"module":            {`{"when": {"site": "rules.*?0x*"}, "use": {"eager_limit": "1K"}}`, 0, 0},
			"two": {`{"when": {"size": "..5000"}, "use": {"eager_limit": "1K"}},
				{"when": {"size": "..40000"}, "use": {"eager_limit": "64K", "rendezvous": "write"}}`, middle + persistent, short + small},
		} {
			if m.Name == "mpich" && name != "two" && name != "site" {
				continue // what differs between the MPIs is in these
			}
			file := filepath.Join(t.TempDir(), "policy.json")
			text := `{"schema": 1, "mode": "act", "rendezvous": "read", "rules": [` + c.rules + `]}`
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			got := job{m: m, options: []string{"--act=" + file}, program: []string{made(t, m, "rules")}}.run(t)
			files := ledgers(t, got.result)
			if got.status != 0 || len(files) != 2 {
				t.Errorf("%s: status %d, %d ledgers\n%s", name, got.status, len(files), got.err)
			}
			for _, file := range files {
				if file.Rank != 0 {
					continue
				}
				n := file.Counts
				if n["eager_messages"] != c.eager || n["rendezvous_messages"] != all-c.eager || n["written_messages"] != c.written {
					t.Errorf("%s: %d eager, %d written of %d, want %d, %d of %d", name, n["eager_messages"], n["written_messages"], n["rendezvous_messages"], c.eager, c.written, all-c.eager)
				}
			}
		}
	})
}

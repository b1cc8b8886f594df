package passtable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// report is the part of mpitrace report --json that the table checks.
type report struct {
	Schema int
	Job    struct {
		State        string
		MissingRanks []int `json:"missing_ranks"`
		Own          struct {
			PrivateBytes int64 `json:"private_bytes"`
		}
	}
	Sites    []site
	Arrivals []struct{ Function function }
	Phases   []struct {
		TimeNS int64 `json:"time_ns"`
	}
	Ranks         []*rankReport
	Communicators []totals
}

type function struct {
	Name                 string
	Calls, Bytes, Errors int64
}

type site struct {
	Function             function
	Module, Symbol, File string
	Offset               uint64
	Line, Phase          int
	Calls, Bytes         int64
	Callback             bool
	Stack                []string
}

type rankReport struct {
	Rank      int
	World     string
	State     string
	WallNS    int64 `json:"wall_ns"`
	Threads   int
	Functions []function
	Peers     []peer
	Requests  requests
	Current   []struct{ Name string }
}

// peer is the traffic of a rank with another one.
type peer struct {
	Rank             int
	SentMessages     int64 `json:"sent_messages"`
	SentBytes        int64 `json:"sent_bytes"`
	ReceivedMessages int64 `json:"received_messages"`
	ReceivedBytes    int64 `json:"received_bytes"`
}

type requests struct {
	Started, Completed, Freed, Cancelled, Dropped int64
}

// mpitrace runs the command in the environment of the run and gives its stdout.
func (h *harness) mpitrace(dir string, r *row, args ...string) ([]byte, error) {
	cmd := exec.Command(h.command, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), h.settings(dir, r)...)
	for _, variable := range r.env {
		cmd.Env = append(cmd.Env, strings.ReplaceAll(variable, "$DIR", dir))
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("mpitrace %s: %w\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
	return out, err
}

// report reads the result of an observed run; that of a row whose processes
// were killed is collected first.
func (h *harness) report(r *row, o *outcome) (*report, error) {
	result := filepath.Join(o.dir, "result")
	if r.plain {
		found, err := filepath.Glob(filepath.Join(o.dir, "mpitrace-*"))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("result directories in %s: got %q, want one", o.dir, found)
		}
		result = found[0]
	}
	if r.killed {
		if err := h.collect(r, o, result); err != nil {
			return nil, err
		}
	}
	out, err := h.mpitrace(o.dir, r, "report", "--json", result)
	if err != nil {
		return nil, err
	}
	rep := &report{}
	if err := json.Unmarshal(out, rep); err != nil {
		return nil, fmt.Errorf("mpitrace report --json: %w", err)
	}
	if rep.Schema != 1 {
		return nil, fmt.Errorf("mpitrace report --json: schema %d, want 1", rep.Schema)
	}
	return rep, nil
}

// collect saves what killed processes left. Hydra's mpiexec may return before
// its ranks are gone, and segments of living processes are left alone.
func (h *harness) collect(r *row, o *outcome, result string) error {
	for wait := 10 * time.Millisecond; ; wait *= 2 {
		if _, err := h.mpitrace(o.dir, r, "collect", "--job", filepath.Base(o.dir), "-o", result); err != nil {
			return err
		}
		left := h.leftovers(o)
		if len(left) == 0 {
			return nil
		}
		if wait > limit/4 {
			return fmt.Errorf("waited %v for the end of the processes of %q", 2*wait, left)
		}
		time.Sleep(wait)
	}
}

// leftovers lists the segments that are still there after a run.
func (h *harness) leftovers(o *outcome) []string {
	found, _ := filepath.Glob(filepath.Join(h.segments, filepath.Base(o.dir), "*.seg"))
	return found
}

// world is the one that the launcher started: that of the rank that spawned
// others, else the only one.
func (rep *report) world() string {
	for _, r := range rep.Ranks {
		if r.calls()["Comm_spawn"] > 0 {
			return r.World
		}
	}
	if len(rep.Ranks) == 0 {
		return ""
	}
	return rep.Ranks[0].World
}

// rank finds a rank of the world that the launcher started.
func (rep *report) rank(rank int) *rankReport {
	for _, r := range rep.Ranks {
		if r.Rank == rank && r.World == rep.world() {
			return r
		}
	}
	return nil
}

// calls sums up the functions of a rank by name without MPI_.
func (r *rankReport) calls() counts {
	sum := counts{}
	for _, f := range r.Functions {
		sum[strings.TrimPrefix(f.Name, "MPI_")] += f.Calls
	}
	return sum
}

func (r *rankReport) bytes() counts {
	sum := counts{}
	for _, f := range r.Functions {
		sum[strings.TrimPrefix(f.Name, "MPI_")] += f.Bytes
	}
	return sum
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
)

// jobReport is what the cross-check needs of mpitrace report --json.
type jobReport struct {
	Schema int
	Job    struct {
		Ranks int
		State string
	}
	Ranks []rankReport
	Act   *struct {
		Verdicts []struct {
			Act    bool
			Reason string
		}
		Ranks    int
		Messages uint64
		Counts   struct {
			Malformed uint64 `json:"malformed_messages"`
		}
	}
}

type rankReport struct {
	Rank      int
	World     string
	Calls     uint64
	Functions []struct {
		Name  string
		Calls uint64
	}
	Peers []struct {
		Rank             int
		SentMessages     uint64 `json:"sent_messages"`
		SentBytes        uint64 `json:"sent_bytes"`
		ReceivedMessages uint64 `json:"received_messages"`
		ReceivedBytes    uint64 `json:"received_bytes"`
	}
	Requests struct{ Freed, Cancelled, Dropped uint64 }
}

// readReport has the mpitrace command read a result.
func readReport(mpitrace, result string) (jobReport, error) {
	var report jobReport
	var stderr bytes.Buffer
	cmd := exec.Command(mpitrace, "report", "--json", result)
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return report, fmt.Errorf("report --json: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return report, fmt.Errorf("report --json is no JSON: %w", err)
	}
	return report, nil
}

// traffic counts one direction between two ranks, or all of them.
type traffic struct {
	messages, bytes uint64
	carried         uint64 // of these, in act mode, messages that the runtime carried
}

func (t *traffic) add(messages, bytes uint64) {
	t.messages += messages
	t.bytes += bytes
}

// crossCheck demands that every rank is there and that what each rank has
// sent to another is what that one has received from it. Cancelled, freed
// and dropped requests may be missing on one side, so many and no more.
func crossCheck(report jobReport, ranks int, calls map[string]uint64) (traffic, error) {
	var total traffic
	if len(report.Ranks) != ranks || report.Job.Ranks != ranks {
		return total, fmt.Errorf("the result has %d ranks of %d, started were %d", len(report.Ranks), report.Job.Ranks, ranks)
	}
	type pair struct {
		world    string
		from, to int
	}
	sent, received := map[pair]traffic{}, map[pair]traffic{}
	var excused uint64
	for _, r := range report.Ranks {
		excused += r.Requests.Freed + r.Requests.Cancelled + r.Requests.Dropped
		for _, p := range r.Peers {
			out, in := pair{r.World, r.Rank, p.Rank}, pair{r.World, p.Rank, r.Rank}
			sent[out] = traffic{messages: sent[out].messages + p.SentMessages, bytes: sent[out].bytes + p.SentBytes}
			received[in] = traffic{messages: received[in].messages + p.ReceivedMessages, bytes: received[in].bytes + p.ReceivedBytes}
			total.add(p.SentMessages, p.SentBytes)
		}
		if err := exactCalls(r, calls); err != nil {
			return total, err
		}
	}
	for _, side := range []map[pair]traffic{sent, received} {
		for p := range side {
			if missing := distance(sent[p].messages, received[p].messages); missing > excused {
				return total, fmt.Errorf("rank %d sent %d messages to rank %d, which received %d", p.from, sent[p].messages, p.to, received[p].messages)
			}
			if excused == 0 && sent[p].bytes != received[p].bytes {
				return total, fmt.Errorf("rank %d sent %d bytes to rank %d, which received %d", p.from, sent[p].bytes, p.to, received[p].bytes)
			}
		}
	}
	return total, nil
}

func distance(a, b uint64) uint64 { return max(a, b) - min(a, b) }

// exactCalls compares a rank's counts with what the program's source says.
func exactCalls(r rankReport, calls map[string]uint64) error {
	got := map[string]uint64{}
	for _, f := range r.Functions {
		got[f.Name] = f.Calls
	}
	for name, want := range calls {
		if got[name] != want {
			return fmt.Errorf("rank %d called %s %d times, the report says %d", r.Rank, name, want, got[name])
		}
	}
	return nil
}

// actCheck demands that all ranks acted, and that none met what no peer says.
func actCheck(report jobReport, ranks int) error {
	if report.Act == nil || len(report.Act.Verdicts) == 0 {
		return fmt.Errorf("the report has nothing of act mode")
	}
	for _, verdict := range report.Act.Verdicts {
		if !verdict.Act {
			return fmt.Errorf("it was only observed: %s", verdict.Reason)
		}
	}
	if report.Act.Ranks != ranks {
		return fmt.Errorf("of %d ranks %d acted", ranks, report.Act.Ranks)
	}
	if n := report.Act.Counts.Malformed; n > 0 {
		return fmt.Errorf("%d malformed messages", n)
	}
	return nil
}

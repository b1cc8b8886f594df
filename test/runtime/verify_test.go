package runtime_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/report"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestVerify: a message that is not what was sent is named, and ends the job or
// the use of the way that it came, as the policy says.
func TestVerify(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		for _, way := range []string{"read", "write"} {
			named := "a message arrived in MPI_Wait that is not what was sent: from rank 0 of MPI_COMM_WORLD, tag 7, 100000 bytes, by " + way + ": "
			stop := job{m: m, options: []string{"--act=verify=1,rndv=" + way}, program: []string{made(t, m, "changed"), "10", "1"}}.run(t)
			if stop.status == 0 || !said(stop, "rank 1: "+named+"the job is ended") {
				t.Errorf("%s, stop: status %d\n%s", way, stop.status, stop.err)
			}
			r, err := report.Load(stop.result, report.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if findings := r.Findings; len(findings) == 0 || !strings.HasPrefix(findings[0], "1 of ") || !strings.Contains(findings[0], " verified were not what was sent, received by rank 1: ") {
				t.Errorf("%s, stop: findings %q", way, findings)
			}
			quiet := job{m: m, options: []string{"--quiet", "--act=verify=1,rndv=" + way}, program: []string{made(t, m, "changed"), "10", "1"}}.run(t)
			if quiet.status == 0 || !said(quiet, "rank 1: "+named+"the job is ended") || len(quiet.ours) != 1 {
				t.Errorf("%s, quiet: status %d, %q", way, quiet.status, quiet.ours)
			}
			on := job{m: m, options: []string{"--act=verify=1,verify-action=quarantine,rndv=" + way}, program: []string{made(t, m, "changed"), "10", "1"}}.run(t)
			if on.status != 0 || len(on.out) != 2 || !said(on, "rank 1: "+named+"its sender takes that way to this rank no more") {
				t.Errorf("%s, quarantine: status %d, %q\n%s", way, on.status, on.out, on.err)
			}
			counts := [2]map[string]int64{}
			for _, file := range ledgers(t, on.result) {
				counts[file.Rank] = file.Counts
			}
			// The one that was changed is the sixth; the barrier behind it is the
			// library's, so that the seventh may be on its way already.
			if c := counts[0]; c["quarantined_paths"] != 1 || c["rendezvous_messages"] != 10 || c["read_messages"] < 3 || c["written_messages"] < 3 {
				t.Errorf("%s: sender %v", way, c)
			}
			if c := counts[1]; c["verified_messages"] != 10 || c["wrong_messages"] != 1 {
				t.Errorf("%s: receiver %v", way, c)
			}
		}
		// Of a short one, too, that leaves straight from its buffer, by a slow link,
		// which the ninth is the first to do: the twelfth is changed.
		slow := filepath.Join(t.TempDir(), "slow.fault")
		if err := os.WriteFile(slow, []byte("rate 20 Mbit/s\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		short := job{m: m, options: []string{"--act=verify=1,eager-limit=128K,eager=reuse,engine=thread"}, env: []string{"MPITRACE_ACT_FAULTS=" + slow},
			program: []string{made(t, m, "changed"), "24", "3"}}.run(t)
		if short.status == 0 || !said(short, "rank 1: a message arrived in MPI_Recv that is not what was sent: from rank 0 of MPI_COMM_WORLD, tag 7, 100000 bytes, by eager: the job is ended") {
			t.Errorf("eager: status %d\n%s", short.status, short.err)
		}
		sampled := job{m: m, options: []string{"--act=verify=5"}, program: []string{made(t, m, "changed"), "20"}}.run(t)
		for _, file := range ledgers(t, sampled.result) {
			if want := int64(4 * file.Rank); file.Counts["verified_messages"] != want || file.Counts["wrong_messages"] != 0 {
				t.Errorf("one in five: rank %d: %v, want %d", file.Rank, file.Counts, want)
			}
		}
		if sampled.status != 0 || len(sampled.ours) > 0 {
			t.Errorf("one in five: status %d\n%s", sampled.status, sampled.err)
		}
	})
}

// said tells whether mpitrace has written a line that begins so.
func said(o outcome, text string) bool {
	for _, line := range o.ours {
		if strings.HasPrefix(line, text) {
			return true
		}
	}
	return false
}

// TestDecisions: what the policy leaves open is tried, and written down; what it
// pins is not.
func TestDecisions(t *testing.T) {
	each(t, func(t *testing.T, m mpijob.MPI) {
		for policy, tried := range map[string][2]string{ // by the rank that sends, by the one that receives
			"rndv=read+write": {"write", ""}, "rndv=write+receiver": {"", "receiver"}, "auto": {"write", "receiver"},
			"rndv=read+write,proof=off": {}, "rndv=read+receiver,proof=off": {}, "rndv=write": {}, "rndv=read+read-event": {}, "rndv=receiver": {},
		} {
			got := job{m: m, options: []string{"--act=" + policy}, program: []string{made(t, m, "changed"), "200", "2"}}.run(t)
			for _, file := range ledgers(t, got.result) {
				newcomer := tried[file.Rank]
				asked := policy == "rndv=receiver" || tried[1] != ""
				if (len(file.Decisions) == 1) != (newcomer != "") || (file.Counts["rtr_sent"] > 0) != (asked && file.Rank == 1) {
					t.Errorf("%s: rank %d: %+v, %v\n%s", policy, file.Rank, file.Decisions, file.Counts, got.err)
				}
				if both := file.Counts["read_messages"] > 0 && file.Counts["written_messages"] > 0; newcomer == "write" && !both {
					t.Errorf("%s: %v", policy, file.Counts)
				}
				for _, d := range file.Decisions {
					if d.Communicator != "MPI_COMM_WORLD" || d.From != 65536 || d.To != 131072 || d.Pairs == 0 || d.Messages != 200 ||
						d.MeasuredNS <= 0 || d.RunnerUpNS <= 0 || d.Newcomer != newcomer {
						t.Errorf("%s: %+v", policy, d)
					}
				}
			}
			if got.status != 0 {
				t.Errorf("%s: status %d\n%s", policy, got.status, got.err)
			}
		}
	})
}

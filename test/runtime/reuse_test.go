package runtime_test

import (
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestReuse: short messages leave straight from their buffers where somebody else
// than their sender carries them out, and the ledger says what that rests on; else
// it says why not, and so does a line. Left open, that is tried against copying.
func TestReuse(t *testing.T) {
	const messages, bytes = 400, 16384
	each(t, func(t *testing.T, m mpijob.MPI) {
		for policy, off := range map[string]bool{"eager=reuse": true, "eager=reuse,engine=thread": false, "auto,engine=thread": false, "auto,engine=thread,proof=off": true, "eager=copy": true} {
			got := job{m: m, options: []string{"--act=" + policy}, program: []string{made(t, m, "straight")}}.run(t)
			all := ledgers(t, got.result)
			if got.status != 0 || len(all) != 2 {
				t.Errorf("%s: status %d, %d ledgers\n%s", policy, got.status, len(all), got.err)
			}
			if has := strings.Contains(got.err, "eager=reuse: short messages are copied: "); has != (policy == "eager=reuse") {
				t.Errorf("%s: it said\n%s", policy, got.err)
			}
			for _, file := range all {
				c := file.Counts
				if c["eager_messages"] != messages || (file.ReuseOff != "") != off || (c["zero_copy_messages"] > 0) == off ||
					c["copied_bytes"] != 2*messages*bytes-c["zero_copy_bytes"]+c["unexpected_bytes"] {
					t.Errorf("%s: rank %d: %q, %v", policy, file.Rank, file.ReuseOff, c)
				}
				tries := policy == "auto,engine=thread"
				if d := file.Decisions; tries != (len(d) == 1) || tries && (d[0].Newcomer != "reuse" || int64(d[0].NewcomerMessages) != c["zero_copy_messages"] || d[0].From != bytes) {
					t.Errorf("%s: rank %d: %+v, %v", policy, file.Rank, d, c)
				}
				if off {
					continue
				}
				if len(file.ReuseCosts) != 1 || file.ReuseCosts[0].From != bytes || file.ReuseCosts[0].CopyNS <= 0 || file.LookUpNS <= 0 || c["reuse_buffers"] != 1 {
					t.Errorf("%s: rank %d: %+v, %v ns, %v", policy, file.Rank, file.ReuseCosts, file.LookUpNS, c)
				}
			}
		}
	})
}

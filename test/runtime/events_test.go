package runtime_test

import (
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestEvents: while ranks wait for their messages themselves, hardly any of them
// costs an event, short or long: the engine's thread stays out of the way.
func TestEvents(t *testing.T) {
	const messages = 2 * (steadyShort + steadyLong)
	each(t, func(t *testing.T, m mpijob.MPI) {
		for _, policy := range []string{"auto", "device=iwarp:lo"} {
			got := job{m: m, options: []string{"--act=" + policy}, program: []string{made(t, m, "steady")}}.run(t)
			var sent, events int64
			for _, l := range ledgers(t, got.result) {
				sent += l.Counts["eager_messages"] + l.Counts["rendezvous_messages"]
				events += l.Counts["thread_events"]
			}
			if got.status != 0 || sent != messages || events > messages/20 {
				t.Errorf("%s: status %d, %d messages of %d, %d events\n%s", policy, got.status, sent, messages, events, got.err)
			}
		}
	})
}

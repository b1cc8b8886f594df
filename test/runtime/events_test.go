package runtime_test

import (
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// TestEvents: while ranks wait for their messages themselves, hardly any of them
// costs an event, short or long: the engine's thread stays out of the way. A rank
// that has no processor for a while is rightly served by the thread, so of three
// jobs one has to do.
func TestEvents(t *testing.T) {
	const messages = 2 * (steadyShort + steadyLong)
	each(t, func(t *testing.T, m mpijob.MPI) {
		for _, policy := range []string{"auto", "device=iwarp:lo"} {
			least := int64(messages)
			for try := 0; try < 3 && least > messages/20; try++ {
				got := job{m: m, options: []string{"--act=" + policy}, program: []string{made(t, m, "steady")}}.run(t)
				var sent, events int64
				for _, l := range ledgers(t, got.result) {
					sent += l.Counts["eager_messages"] + l.Counts["rendezvous_messages"]
					events += l.Counts["thread_events"]
				}
				if got.status != 0 || sent != messages {
					t.Fatalf("%s: status %d, %d messages of %d\n%s", policy, got.status, sent, messages, got.err)
				}
				least = min(least, events)
			}
			if least > messages/20 {
				t.Errorf("%s: %d events for %d messages", policy, least, messages)
			}
		}
	})
}

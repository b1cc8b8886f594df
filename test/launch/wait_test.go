package launch_test

import (
	"strings"
	"testing"
	"time"
)

// waitState waits until a process is in one of the states.
func waitState(t *testing.T, pid int, states string) {
	t.Helper()
	for end := time.Now().Add(limit); !strings.Contains(states, orGone(stateOf(pid))); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d is in state %q, want one of %q", pid, stateOf(pid), states)
		}
	}
}

// waitGone waits until a process has ended.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(limit); stateOf(pid) != "" && stateOf(pid) != "Z"; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("process %d does not end", pid)
		}
	}
}

// orGone makes a state of a process that does not exist.
func orGone(state string) string {
	if state == "" {
		return "gone"
	}
	return state
}

package regcache

import (
	"errors"
	"fmt"
)

// Reason says why a request was refused.
type Reason int

// The reasons, in the order of Stats.RefusedBy.
const (
	Invalid   Reason = iota // no bytes, or the end of the address space
	TooLarge                // more bytes than the budget
	Busy                    // what is referenced leaves no room in the budget
	Memlock                 // the registrar may pin no more, whatever is evicted
	Failed                  // the registrar failed otherwise
	Changed                 // the memory changed since it was asked for
	NoMonitor               // nobody watches memory: nothing can be promoted
	Dead                    // the cache was killed or closed
	reasons
)

var reasonNames = [reasons]string{
	"invalid", "too-large", "busy", "memlock", "failed", "changed", "no-monitor", "dead",
}

var reasonTexts = [reasons]string{
	Invalid:   "no bytes, or beyond the address space",
	TooLarge:  "larger than the budget",
	Busy:      "what is in use leaves no room in the budget",
	Memlock:   "no more can be pinned (ulimit -l), or not all of it is mapped",
	Failed:    "it could not be registered",
	Changed:   "the memory changed meanwhile",
	NoMonitor: "nobody watches memory, so nothing is cached",
	Dead:      "the cache is closed, or belongs to the parent of a fork",
}

func (r Reason) String() string {
	if r < 0 || r >= reasons {
		return fmt.Sprintf("Reason(%d)", int(r))
	}
	return reasonNames[r]
}

// Refusal is the error of a request that was refused.
type Refusal struct {
	Addr, Length uint64
	Reason       Reason
	Err          error // the registrar's, if it is the cause
}

func (e *Refusal) Error() string {
	text := fmt.Sprintf("regcache: %d bytes at %#x: %s", e.Length, e.Addr, reasonTexts[e.Reason])
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *Refusal) Unwrap() error { return e.Err }

// refusedFor reports whether err is a refusal for that reason.
func refusedFor(err error, reason Reason) bool {
	var r *Refusal
	return errors.As(err, &r) && r.Reason == reason
}

// ErrNotHeld is what Release of a region returns that nobody holds.
var ErrNotHeld = errors.New("regcache: the region is not held")

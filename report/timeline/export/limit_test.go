package export

import (
	"os/signal"
	"testing"

	"golang.org/x/sys/unix"
)

// limitFiles limits the size of the files that this process writes: a write
// beyond it fails, as on a disk that is full.
func limitFiles(t *testing.T, bytes uint64) (restore func()) {
	t.Helper()
	signal.Ignore(unix.SIGXFSZ)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: bytes, Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
		signal.Reset(unix.SIGXFSZ)
	}
}

package memmon

import (
	"bytes"
	"log/slog"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestWatchable: no more processes are let in than there are descriptors for,
// and who asked for more is told so in one line.
func TestWatchable(t *testing.T) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the test
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	if err := unix.Capget(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	caps[0].Effective &^= 1<<unix.CAP_SYS_RESOURCE | 1<<unix.CAP_SYS_ADMIN
	if err := unix.Capset(&header, &caps[0]); err != nil {
		t.Fatal(err)
	}
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	few := unix.Rlimit{Cur: min(old.Cur, 25*uint64(holds())), Max: old.Max}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) }()
	for _, test := range []struct{ asked, want, lines int }{{0, 25, 0}, {4096, 25, 1}, {26, 25, 1}, {25, 25, 0}} {
		var said bytes.Buffer
		o, err := Options{Processes: test.asked, Log: slog.New(slog.NewTextHandler(&said, nil))}.withDefaults()
		if err != nil || o.Processes != test.want || strings.Count(said.String(), "\n") != test.lines {
			t.Errorf("%d asked for: %d, want %d (%v), said:\n%s", test.asked, o.Processes, test.want, err, &said)
		}
	}
}

// TestUnit: the service may hold what its default number of processes takes.
func TestUnit(t *testing.T) {
	text, err := os.ReadFile("../../packaging/systemd/mpitrace-memmon.service")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^LimitNOFILE=(\d+)$`).FindSubmatch(text)
	if m == nil {
		t.Fatal("no LimitNOFILE")
	}
	// beside what waits in sockets: a connection and a pidfd each
	limit, _ := strconv.Atoi(string(m[1]))
	if want := defaultProcesses * (holds() + 2); limit < want {
		t.Errorf("LimitNOFILE=%d, %d are needed", limit, want)
	}
}

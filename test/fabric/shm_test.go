package fabric

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// shmProgram builds a program of shm/: its name is that of the file with its main.
func shmProgram(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	args := []string{"-std=gnu11", "-g", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Wstrict-prototypes", "-Wmissing-prototypes", "-Werror",
		"programs/harness.c"}
	for _, pattern := range []string{"test/fabric/shm/" + name + "*.c", "c/fabric/*.c", "c/fabric/[^t]*/*.c"} { // c/fabric/tool is a program of its own
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(files) == 0 {
			t.Fatalf("no sources %s (%v)", pattern, err)
		}
		args = append(args, files...)
	}
	if err := mpijob.Compile("gcc", program, append(args, "-lpthread", "-ldl")...); err != nil {
		t.Fatal(err)
	}
	return program
}

// shmRun runs it, and returns its status and what it said.
func shmRun(t *testing.T, limit time.Duration, program string, args ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	// copies by loops of instructions instead of one that steps for each byte
	cmd.Env = append(os.Environ(), "GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1000000000")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%v, %v\n%s", err, ctx.Err(), out)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// killed are the operations of shm/steps.c in which a peer dies; of these moves
// depend on who moves the data.
var (
	moves  = []string{"write and flag", "write and notice", "read", "read long", "send long", "receive long"}
	killed = append(moves[:len(moves):len(moves)], "send short", "send", "write and flag short", "receive short", "connect", "destroy", "close",
		"datagram", "datagram long", "datagram receive")
)

// TestKilledAtAnyInstruction: a peer over shared memory that dies in the middle
// of what it does, anywhere in it.
func TestKilledAtAnyInstruction(t *testing.T) {
	program := shmProgram(t, "steps")
	points, limit := 3, 20*time.Minute
	if *long {
		points, limit = 0, 6*time.Hour // every one
	}
	for way, operations := range map[string][]string{"inline": killed, "peer": moves, "copies": moves} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			for _, operation := range operations {
				t.Run(operation, func(t *testing.T) {
					status, out := shmRun(t, limit, program, way, fmt.Sprint(points), operation)
					if status == 77 {
						mpijob.Need(t, mpijob.Missing("tracing of children (ptrace)", "run where it is allowed: in a container with --cap-add SYS_PTRACE"))
					}
					if status != 0 || !strings.Contains(out, "ok   "+operation+":") {
						t.Errorf("status %d", status)
					}
					t.Log("\n" + out)
				})
			}
		})
	}
}

// TestStandsStill: a peer that stops in the middle of a copy to memory that is given
// back is waited for, and then named.
func TestStandsStill(t *testing.T) {
	if !*long {
		return // ten seconds of waiting, asked for by make test-fabric-long
	}
	program := shmProgram(t, "steps")
	for _, operation := range []string{"write and flag", "write and notice"} {
		status, out := shmRun(t, 20*time.Minute, program, "inline", "still", operation)
		if status == 77 {
			mpijob.Need(t, mpijob.Missing("tracing of children (ptrace)", "run where it is allowed: in a container with --cap-add SYS_PTRACE"))
		}
		if status != 0 {
			t.Errorf("status %d", status)
		}
		t.Log("\n" + out)
	}
}

// TestTakenBack: a region of a process's own memory is given back when a peer has
// looked at its key already, and not yet said that it copies: it does not then.
func TestTakenBack(t *testing.T) {
	const operation = "write and notice"
	way := "taken5"
	if *long {
		way = "taken1"
	}
	status, out := shmRun(t, 20*time.Minute, shmProgram(t, "steps"), "inline", way, operation)
	if status == 77 {
		mpijob.Need(t, mpijob.Missing("tracing of children (ptrace)", "run where it is allowed: in a container with --cap-add SYS_PTRACE"))
	}
	if status != 0 || !strings.Contains(out, "ok   "+operation+": taken back") {
		t.Errorf("status %d", status)
	}
	t.Log("\n" + out)
}

// TestNoSystemCall: short messages over shared memory do not enter the kernel.
func TestNoSystemCall(t *testing.T) {
	program := shmProgram(t, "calls")
	if status, out := shmRun(t, 20*time.Minute, program, "1000"); status != 0 {
		t.Errorf("status %d\n%s", status, out)
	}
	if status, out := shmRun(t, 20*time.Minute, program, "1000", "woken"); status != 1 || !strings.Contains(out, "system call") {
		t.Errorf("status %d, although one side had to be woken\n%s", status, out)
	}
}

// Command memmon measures what watching memory costs: a short system call, one
// that the kernel program looks at more closely, mapping and unmapping a
// megabyte, and a look-up, each in a process that nobody watches, in one beside
// a watched one, and in watched ones. The runs alternate; the least counts. It
// is run at the top of the tree, by make bench-memmon, and wants root.
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/memmon"
	"github.com/mpitrace/mpitrace/test/mpijob"
)

// rounds is how often each case is run.
const rounds = 5

// settle is how long the kernel may take to let go of the tracepoints when the
// process before was the last one watched.
const settle = 5 * time.Second

// figures are nanoseconds: a short call, a looked-at call, mmap and munmap, a
// look-up.
type figures [4]float64

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench/memmon:", err)
		os.Exit(1)
	}
}

func run() error {
	dir, err := os.MkdirTemp("", "memmon")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	exe, socket := filepath.Join(dir, "cost"), filepath.Join(dir, "memmon.sock")
	sources, err := filepath.Glob("c/memhook/*.c")
	if err != nil || len(sources) == 0 {
		return fmt.Errorf("c/memhook is not here (%v): run it at the top of the tree", err)
	}
	args := append([]string{"-std=gnu11", "-D_GNU_SOURCE", "-O2", "bench/memmon/programs/cost.c"}, sources...)
	if err := mpijob.Compile("gcc", exe, append(args, "-lpthread", "-ldl")...); err != nil {
		return err
	}
	s, err := memmon.New(memmon.Options{Socket: socket})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx) }()
	defer func() { cancel(); <-done }()
	return table(exe, socket)
}

// table runs all cases in turn and prints the least figures of each.
func table(exe, socket string) error {
	cases := []struct {
		name   string
		beside bool // with another process that is watched
		args   []string
	}{
		{"nobody is watched", false, []string{"plain"}},
		{"another process is watched", true, []string{"plain"}},
		{"watched by the kernel program", false, []string{"ebpf", socket}},
		{"watched by libucm", false, []string{"ucm"}},
	}
	least := make([]figures, len(cases))
	for round := range rounds {
		for i, c := range cases {
			f, err := measure(exe, socket, c.beside, c.args)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			for j := range f {
				if round == 0 || f[j] < least[i][j] {
					least[i][j] = f[j]
				}
			}
		}
	}
	fmt.Println("ns                              getppid   openat  mmap+munmap  look-up")
	for i, c := range cases {
		f := least[i]
		fmt.Printf("%-31s %7.1f %8.1f %12.1f %8.2f\n", c.name, f[0], f[1], f[2], f[3])
	}
	return nil
}

func measure(exe, socket string, beside bool, args []string) (figures, error) {
	var f figures
	time.Sleep(settle)
	if beside {
		stop, err := watchOther(exe, socket)
		if err != nil {
			return f, err
		}
		defer stop()
	}
	out, err := exec.Command(exe, args...).Output()
	if err != nil {
		return f, err
	}
	if n, err := fmt.Sscan(string(out), &f[0], &f[1], &f[2], &f[3]); n != len(f) {
		return f, fmt.Errorf("%q: %w", out, err)
	}
	return f, nil
}

// watchOther starts a process that is watched and does nothing.
func watchOther(exe, socket string) (stop func(), err error) {
	cmd := exec.Command(exe, "wait", socket)
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "watched" {
		_ = cmd.Process.Kill()
		return nil, fmt.Errorf("the other process said %q (%v)", line, err)
	}
	return func() { in.Close(); _ = cmd.Wait() }, nil
}

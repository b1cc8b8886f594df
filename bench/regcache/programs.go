package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mpitrace/mpitrace/internal/stats"
)

// programLimit ends a program that hangs.
const programLimit = 2 * time.Minute

// hitLimit is what a hit may cost in nanoseconds, loads of generations included.
const hitLimit = 15

// build compiles one of programs/ with the table in front, and more.
func build(name string, more ...string) (exe string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "mpitrace-regcache-")
	if err != nil {
		return "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	exe = filepath.Join(dir, name)
	args := []string{"-std=gnu11", "-D_GNU_SOURCE", "-O2", "-Wall", "-Werror", "bench/regcache/programs/" + name + ".c", "c/regcache/front.c", "-o", exe}
	cmd := exec.Command("gcc", append(args, more...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		remove()
		return "", nil, fmt.Errorf("build %s, from the top of the source tree: %w\n%s", name, err, out)
	}
	return exe, remove, nil
}

func output(exe string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), programLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, exe, args...).Output()
	if ctx.Err() != nil {
		err = fmt.Errorf("not finished after %v", programLimit)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", filepath.Base(exe), strings.Join(args, " "), err)
	}
	return out, nil
}

// measureHit runs programs/hit.c.
func measureHit(o options, r *report) error {
	exe, remove, err := build("hit")
	if err != nil {
		return err
	}
	defer remove()
	out, err := output(exe, strconv.Itoa(o.processor), strconv.Itoa(o.repetitions))
	if err != nil {
		return err
	}
	var order []string
	figures := map[string][]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		ns, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return fmt.Errorf("hit printed %q", lines.Text())
		}
		if figures[name] == nil {
			order = append(order, name)
		}
		figures[name] = append(figures[name], ns)
		r.figure("hit", name, ns)
	}
	r.say("The table in front, ns a look-up (a hit may take %d)", hitLimit)
	for _, name := range order {
		r.say("  %-28s %7.1f  least %.1f", name, typical(figures[name]), stats.Quantile(figures[name], 0))
	}
	return nil
}

// buildTemporary compiles programs/temporary.c.
func buildTemporary() (exe string, remove func(), err error) {
	monitor, err := filepath.Glob("c/memhook/*.c")
	if err != nil {
		return "", nil, err
	}
	return build("temporary", append(monitor, "-lpthread", "-ldl")...)
}

// measureTemporary runs programs/temporary.c.
func measureTemporary(_ options, r *report) error {
	const iterations = 20000
	exe, remove, err := buildTemporary()
	if err != nil {
		return err
	}
	defer remove()
	r.say("Hits on a buffer while another 1 MB is allocated and freed in each of %d iterations, %%", iterations)
	r.say("  %-44s %10s %12s", "", "by bucket", "by process")
	for _, c := range []struct{ malloc, place, text string }{
		{"adaptive", "near", "malloc as it comes"},
		{"mapped", "far", "each temporary a mapping, buffer elsewhere"},
		{"mapped", "near", "each temporary a mapping, beside the buffer"},
	} {
		var share [2]float64
		for i, generations := range []string{"bucket", "process"} {
			out, err := output(exe, c.malloc, c.place, generations, strconv.Itoa(iterations))
			if err != nil {
				return err
			}
			if share[i], err = strconv.ParseFloat(strings.TrimSpace(string(out)), 64); err != nil {
				return fmt.Errorf("temporary printed %q", out)
			}
			r.figure("temporary", c.text+", by "+generations, share[i])
		}
		r.say("  %-44s %10.2f %12.2f", c.text, 100*share[0], 100*share[1])
	}
	return nil
}

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// messageDevices are those of the fabric that every machine has. They register
// without pinning, for next to nothing: what the cache saves on a device that
// pins is in measureReuse and mpitrace fabric registration.
var messageDevices = []string{"shm", "iwarp:lo"}

// buildMessages compiles programs/messages.c with the whole cache, Go included,
// and the fabric.
func buildMessages() (exe string, remove func(), err error) {
	dir, err := os.MkdirTemp("", "mpitrace-regcache-")
	if err != nil {
		return "", nil, err
	}
	defer os.RemoveAll(dir)
	archive, err := mpijob.BuildService(dir)
	if err != nil {
		return "", nil, err
	}
	var more []string
	for _, pattern := range []string{"c/regservice/*.c", "c/fabric/*.c", "c/fabric/[^t]*/*.c"} {
		files, err := filepath.Glob(pattern) // c/fabric/tool is a program of its own
		if err != nil || len(files) == 0 {
			return "", nil, fmt.Errorf("no sources %s (%v)", pattern, err)
		}
		more = append(more, files...)
	}
	return build("messages", append(more, archive, "-lpthread", "-ldl")...)
}

// measureMessages runs programs/messages.c: B10 and B11 with messages that
// arrive in another process.
func measureMessages(o options, r *report) error {
	exe, remove, err := buildMessages()
	if err != nil {
		return err
	}
	defer remove()
	r.say("A message to another process, us: WRITE from a registered buffer (B10, B11); what the cache lacks is copied first")
	for _, device := range messageDevices {
		out, err := output(exe, device, strconv.Itoa(o.repetitions), strconv.Itoa(o.processor), strconv.Itoa(max(o.processor-1, 0)))
		if err != nil {
			return err
		}
		times, sizes, err := messageTimes(out)
		if err != nil {
			return err
		}
		r.say("  %-8s %6s | %9s %9s %9s | %9s | %11s %14s", device, "KiB", "100 %", "50 %", "0 % reuse", "cache off", "off / 100 %", "0 % / 100 %")
		for _, size := range sizes {
			us := func(variant string) float64 { return typical(times[size+", "+variant]) / 1e3 }
			kib, _ := strconv.Atoi(size)
			r.say("  %-8s %6d | %9.2f %9.2f %9.2f | %9.2f | %11.2f %14.2f", "", kib>>10, us("100"), us("50"), us("0"), us("off"), us("off")/us("100"), us("0")/us("100"))
		}
		for what, figures := range times {
			for _, ns := range figures {
				r.figure("messages over "+device, what, ns)
			}
		}
	}
	return nil
}

// messageTimes reads lines "BYTES, VARIANT: ns"; sizes come in their order.
func messageTimes(out []byte) (times map[string][]float64, sizes []string, err error) {
	times = map[string][]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		what, value, _ := strings.Cut(lines.Text(), ": ")
		size, variant, ok := strings.Cut(what, ", ")
		ns, err := strconv.ParseFloat(value, 64)
		if err != nil || !ok {
			return nil, nil, fmt.Errorf("messages printed %q", lines.Text())
		}
		if strings.HasPrefix(variant, "hits ") {
			continue // for the test
		}
		if len(times[what]) == 0 && variant == "off" {
			sizes = append(sizes, size)
		}
		times[what] = append(times[what], ns)
	}
	return times, sizes, nil
}

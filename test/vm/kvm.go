package vm

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// kvmLimit is for whether kvm works: a guest takes seconds, or never comes up.
const kvmLimit = 30 * time.Second

// virtualizes reports whether a processor can run guests itself, by /proc/cpuinfo.
func virtualizes(cpuinfo string) bool {
	_, flags, _ := strings.Cut(cpuinfo, "\nflags")
	flags, _, _ = strings.Cut(flags, "\n")
	for _, flag := range strings.Fields(flags) {
		if flag == "vmx" || flag == "svm" {
			return true
		}
	}
	return false
}

// accelerates decides whether guests run with kvm: its device opens, the processor
// virtualizes, and a guest comes up. That none does is said.
func accelerates(device error, cpuinfo string, try func() error, say io.Writer) bool {
	if device != nil || !virtualizes(cpuinfo) {
		return false
	}
	err := try()
	if err != nil {
		fmt.Fprintf(say, "vm: kvm does not work here, so guests are emulated: %v\n", err)
	}
	return err == nil
}

// accelerated is whether guests run with kvm: found out once.
var accelerated = sync.OnceValue(func() bool {
	file, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err == nil {
		file.Close()
	}
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo") // nothing: it does not virtualize
	return accelerates(err, string(cpuinfo), tryKVM, os.Stderr)
})

// tryKVM boots a guest with kvm.
func tryKVM() error {
	p, err := prepared()
	if err != nil {
		return err
	}
	g, err := boot(p, Options{CPUs: 1, MiB: 512, Rails: 1, Name: "kvm"}, true, kvmLimit)
	if err == nil {
		g.stop()
	}
	return err
}

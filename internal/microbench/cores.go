package microbench

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
)

// cores is the number of processor cores of this machine, not counting the
// further hardware threads of each; the processors that this process may use
// where the system does not tell.
var cores = sync.OnceValue(func() int {
	files, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*/topology/thread_siblings_list")
	siblings := map[string]bool{}
	for _, name := range files {
		if text, err := os.ReadFile(name); err == nil {
			siblings[strings.TrimSpace(string(text))] = true
		}
	}
	n := runtime.NumCPU()
	if len(siblings) > 0 {
		n = min(n, len(siblings))
	}
	return n
})

// processor is the model name of the processors.
func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for _, line := range strings.Split(string(text), "\n") {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// load is the load average of the last minute, empty where unknown.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

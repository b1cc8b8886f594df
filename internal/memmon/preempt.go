package memmon

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelTexts are what tells how a kernel preempts itself; empty if not there.
type kernelTexts struct {
	version string // uname -v
	chosen  string // /sys/kernel/debug/sched/preempt: "none voluntary (full) lazy"
	command string // /proc/cmdline
	config  string // the configuration that the kernel was built with
}

// checkPreemption refuses kernels that may preempt a process inside a BPF map
// operation: until it goes on, the kernel starts no program of a tracepoint on that
// processor (bpf_prog_active), and a call that takes memory away goes unseen.
func checkPreemption() error {
	return readKernelTexts().refuse()
}

func (k kernelTexts) refuse() error {
	switch model := k.model(); model {
	case "none", "voluntary":
		return nil
	case "":
		return &NotSupportedError{"it is not known whether the kernel preempts itself", "mount debugfs, which says so (/sys/kernel/debug/sched/preempt), or act with cache=off", errors.New(k.version)}
	default:
		return &NotSupportedError{"this kernel preempts itself, and then does not start programs of tracepoints at all times", "boot it with preempt=none or preempt=voluntary if it can be, or act with cache=off", errors.New("preempt=" + model)}
	}
}

// model is none, voluntary, full, lazy or rt; empty if it cannot be told. What the kernel
// says of itself counts most: one of 5.12 to 5.17 that can be told when it starts has no
// more than PREEMPT in its version.
func (k kernelTexts) model() string {
	words := strings.Fields(k.version)
	if slices.Contains(words, "PREEMPT_RT") {
		return "rt"
	}
	if _, text, ok := strings.Cut(k.chosen, "("); ok {
		model, _, _ := strings.Cut(text, ")")
		return model
	}
	switch {
	case slices.Contains(words, "PREEMPT_LAZY"):
		return "lazy"
	case slices.Contains(words, "PREEMPT"):
		return "full"
	case !slices.Contains(words, "PREEMPT_DYNAMIC"):
		return "none" // or voluntary
	}
	told := ""
	for _, word := range strings.Fields(k.command) {
		if model, ok := strings.CutPrefix(word, "preempt="); ok {
			told = model // the last one counts
		}
	}
	if told != "" && k.knows(told) {
		return told
	}
	switch lines := strings.Split(k.config, "\n"); { // one of them is set
	case slices.Contains(lines, "CONFIG_PREEMPT_NONE=y"):
		return "none"
	case slices.Contains(lines, "CONFIG_PREEMPT_VOLUNTARY=y"):
		return "voluntary"
	case slices.Contains(lines, "CONFIG_PREEMPT_LAZY=y"):
		return "lazy"
	case slices.Contains(lines, "CONFIG_PREEMPT=y"):
		return "full"
	}
	return ""
}

// knows tells whether a kernel can be told to work by a model. Later ones can not be
// told by none and voluntary on every processor, and do not have them in their
// configuration then, not even as something that is not set.
func (k kernelTexts) knows(model string) bool {
	return model != "none" && model != "voluntary" ||
		strings.Contains(k.config, "CONFIG_PREEMPT_"+strings.ToUpper(model)+"=y\n") ||
		strings.Contains(k.config, "CONFIG_PREEMPT_"+strings.ToUpper(model)+" is not set\n")
}

func readKernelTexts() kernelTexts {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return kernelTexts{}
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			return ""
		}
		return string(text)
	}
	k := kernelTexts{
		version: unix.ByteSliceToString(name.Version[:]),
		chosen:  read("/sys/kernel/debug/sched/preempt"),
		command: read("/proc/cmdline"),
		config:  read("/boot/config-" + unix.ByteSliceToString(name.Release[:])),
	}
	if k.config == "" {
		k.config = unpacked(read("/proc/config.gz"))
	}
	return k
}

// unpacked is the text of a gzip file, empty if it is none.
func unpacked(packed string) string {
	r, err := gzip.NewReader(bytes.NewReader([]byte(packed)))
	if err != nil {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(r, 4<<20))
	if err != nil {
		return ""
	}
	return string(text)
}

package vm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/mpitrace/mpitrace/test/vm/wire"
)

// archive writes the cpio format that kernels unpack at boot ("newc"; Linux,
// Documentation/driver-api/early-userspace/buffer-format.rst).
type archive struct {
	w     *bufio.Writer
	inode int
	err   error
}

const (
	directory  = 0o040755
	executable = 0o100755
	plain      = 0o100644
)

func (a *archive) add(name string, mode int, content []byte) {
	if a.err != nil {
		return
	}
	a.inode++
	_, a.err = fmt.Fprintf(a.w, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.inode, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name)+1, 0, name)
	a.pad(110 + len(name) + 1)
	if a.err == nil {
		_, a.err = a.w.Write(content)
	}
	a.pad(len(content))
}

// pad fills up to a multiple of four.
func (a *archive) pad(n int) {
	if a.err == nil {
		_, a.err = a.w.Write(make([]byte, -n&3))
	}
}

// writeInitramfs writes what the kernel finds before it has a disk: the first
// process, the modules and the settings.
func writeInitramfs(to io.Writer, k *kernel, init string, settings wire.Settings) error {
	a := &archive{w: bufio.NewWriter(to)}
	program, err := os.ReadFile(init)
	if err != nil {
		return err
	}
	a.add("init", executable, program)
	a.add("modules", directory, nil)
	// the console, for what goes wrong before /dev is there, is made by the kernel
	a.add("dev", directory, nil)
	settings.Modules = nil
	for _, path := range k.modules {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		settings.Modules = append(settings.Modules, filepath.Base(path))
		a.add("modules/"+filepath.Base(path), plain, content)
	}
	text, err := json.Marshal(settings)
	if err != nil {
		return err
	}
	a.add("settings.json", plain, text)
	a.add("TRAILER!!!", 0, nil)
	if a.err != nil {
		return a.err
	}
	return a.w.Flush()
}

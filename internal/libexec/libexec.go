package libexec

import (
	"os"
	"os/exec"
	"path/filepath"
)

// Find looks for a program: beside the program executable, in
// ../libexec/mpitrace from there, then in PATH.
func Find(executable, program string) (path string, found bool) {
	if real, err := filepath.EvalSymlinks(executable); err == nil {
		executable = real
	}
	dir := filepath.Dir(executable)
	for _, path := range []string{filepath.Join(dir, program), filepath.Join(dir, "..", "libexec", "mpitrace", program)} {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, true
		}
	}
	path, err := exec.LookPath(program)
	return path, err == nil
}

package launch

import (
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// ShimName is the file name of the library that is preloaded.
const ShimName = "libmpishim.so"

// isShim tells the shim, or a variant of it, by its file name.
func isShim(path string) bool {
	return strings.HasPrefix(filepath.Base(path), strings.TrimSuffix(ShimName, ".so"))
}

// shimDirs is where the shim lies, relative to the directory of mpitrace: in
// a build directory and as installed.
var shimDirs = []string{".", "../lib", "../lib64", "../lib/mpitrace", "../lib64/mpitrace"}

// FindShim returns the absolute path of the shim: given if that is not
// empty, else the first found from the directory of the executable.
func FindShim(given, executable string) (string, error) {
	if given != "" {
		path, err := filepath.Abs(given)
		if err != nil {
			return "", fmt.Errorf("--shim %s: %w", given, err)
		}
		return path, checkShim(path, "--shim "+given)
	}
	if resolved, err := filepath.EvalSymlinks(executable); err == nil {
		executable = resolved
	}
	var tried []string
	for _, dir := range shimDirs {
		path := filepath.Join(filepath.Dir(executable), dir, ShimName)
		if _, err := os.Stat(path); err == nil {
			return path, checkShim(path, path)
		}
		tried = append(tried, filepath.Dir(path))
	}
	return "", fmt.Errorf("%s not found in %s: build it with make, or say where it is with --shim PATH", ShimName, strings.Join(tried, ", "))
}

// checkShim refuses a file that the dynamic linker would not preload.
func checkShim(path, what string) error {
	f, err := elf.Open(path)
	if os.IsNotExist(err) {
		return fmt.Errorf("%s: no such file: give the path of %s", what, ShimName)
	}
	if err != nil {
		return fmt.Errorf("%s: not a shared library: %w", what, err)
	}
	defer f.Close()
	if machine, ok := machines[runtime.GOARCH]; f.Type != elf.ET_DYN || ok && f.Machine != machine {
		return fmt.Errorf("%s: not a shared library for this processor", what)
	}
	return nil
}

package launch

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Visibility says whether a preloaded library will see the MPI calls of a
// program.
type Visibility int

const (
	Unknown     Visibility = iota // a script, or not found
	Linked                        // linked with a shared MPI library
	NotLinked                     // a dynamic program without MPI: it may still load one
	Unreachable                   // LD_PRELOAD has no effect on it
)

// Inspect tells from the file of a program, as the user named it, whether its
// MPI calls will be seen, with a clause that says why not: "./app is
// statically linked". The libraries it needs are followed.
func Inspect(program string) (Visibility, string) {
	path, err := LookPath(program)
	if err != nil {
		return Unknown, ""
	}
	f, err := elf.Open(path)
	if err != nil {
		return Unknown, ""
	}
	defer f.Close()
	if why := unreachable(path, f); why != "" {
		return Unreachable, program + " " + why
	}
	if needsMPI(path, f) {
		return Linked, ""
	}
	return NotLinked, program + " is not linked with a shared MPI library"
}

// machines are the ELF machines of the architectures that we run on.
var machines = map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}

// unreachable says why the dynamic linker would not preload a library into a
// program, empty if it would.
func unreachable(path string, f *elf.File) string {
	if machine, ok := machines[runtime.GOARCH]; ok && f.Machine != machine {
		return fmt.Sprintf("is built for another processor (%s)", f.Machine)
	}
	interpreted := false
	for _, p := range f.Progs {
		interpreted = interpreted || p.Type == elf.PT_INTERP
	}
	if !interpreted {
		return "is statically linked"
	}
	info, err := os.Stat(path)
	if err != nil {
		return ""
	}
	if info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 && !ownedBySelf(info) {
		return "is set-user-id or set-group-id"
	}
	if n, err := syscall.Getxattr(path, "security.capability", nil); err == nil && n > 0 && os.Geteuid() != 0 {
		return "has file capabilities"
	}
	return ""
}

// ownedBySelf tells a set-id program that changes nothing.
func ownedBySelf(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && int(st.Gid) == os.Getegid()
}

// isMPI tells an MPI library by its file name: libmpi.so.40, libmpich.so.12,
// libmpi_mpifh.so, libmpicxx.so, libmpi_abi.so.
func isMPI(library string) bool {
	return strings.HasPrefix(library, "libmpi") && strings.Contains(library, ".so") && !isShim(library)
}

// needsMPI tells whether a program is linked with a shared MPI library.
func needsMPI(path string, root *elf.File) bool {
	found := false
	eachNeeded(path, root, func(name string, _ *elf.File) bool {
		found = isMPI(filepath.Base(name))
		return !found
	})
	return found
}

// eachProgram visits the dynamic programs among the words of a command.
func eachProgram(words []string, visit func(path string, f *elf.File)) {
	for _, word := range words {
		path, err := LookPath(word)
		if err != nil || strings.HasPrefix(word, "-") {
			continue
		}
		if f, err := elf.Open(path); err == nil {
			visit(path, f)
			f.Close()
		}
	}
}

// eachNeeded follows DT_NEEDED breadth first as the dynamic linker does, until visit
// returns false. The file is nil if it is not found, and closed afterwards.
func eachNeeded(path string, root *elf.File, visit func(name string, f *elf.File) bool) {
	seen := map[string]bool{}
	search := searchPath(path, root, nil)
	queue := []needed{{root, search}}
	defer func() { closeAll(queue) }()
	for at := 0; at < len(queue); at++ {
		libraries, err := queue[at].file.ImportedLibraries()
		if err != nil {
			continue
		}
		for _, name := range libraries {
			if seen[name] {
				continue
			}
			seen[name] = true
			f, where := openLibrary(name, queue[at].search, root.Machine)
			if f != nil {
				queue = append(queue, needed{f, searchPath(where, f, search)})
			}
			if !visit(name, f) {
				return
			}
		}
	}
}

// needed is a library whose own libraries are still to be looked at.
type needed struct {
	file   *elf.File
	search []string
}

// closeAll closes all but the first, which is the program.
func closeAll(queue []needed) {
	for _, n := range queue[1:] {
		n.file.Close()
	}
}

// searchPath is where the dynamic linker looks for the libraries of a file:
// its RPATH and that of the program, LD_LIBRARY_PATH, its RUNPATH, and the
// directories of the system.
func searchPath(path string, f *elf.File, inherited []string) []string {
	origin := filepath.Dir(path)
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		origin = filepath.Dir(resolved)
	}
	var dirs []string
	add := func(tag elf.DynTag) {
		lists, err := f.DynString(tag)
		if err != nil {
			return
		}
		for _, list := range lists {
			list = strings.NewReplacer("$ORIGIN", origin, "${ORIGIN}", origin).Replace(list)
			dirs = append(dirs, filepath.SplitList(list)...)
		}
	}
	add(elf.DT_RPATH)
	dirs = append(dirs, inherited...)
	dirs = append(dirs, filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))...)
	add(elf.DT_RUNPATH)
	return dirs
}

// openLibrary finds a library in dirs, then in those of the system.
func openLibrary(name string, dirs []string, machine elf.Machine) (*elf.File, string) {
	candidates := []string{name}
	if !strings.Contains(name, "/") {
		candidates = candidates[:0]
		for _, dir := range append(dirs, SystemLibraryDirs()...) {
			candidates = append(candidates, filepath.Join(dir, name))
		}
	}
	for _, path := range candidates {
		f, err := elf.Open(path)
		if err != nil {
			continue
		}
		if f.Machine == machine {
			return f, path
		}
		f.Close()
	}
	return nil, ""
}

// SystemLibraryDirs are the directories of /etc/ld.so.conf and those built
// into the dynamic linker.
func SystemLibraryDirs() []string {
	dirs := readLibraryConf("/etc/ld.so.conf", 0)
	return append(dirs, "/lib64", "/usr/lib64", "/lib", "/usr/lib", "/usr/local/lib")
}

// readLibraryConf reads a file of the format of ld.so.conf with its includes.
func readLibraryConf(path string, depth int) []string {
	text, err := os.ReadFile(path)
	if err != nil || depth > 4 {
		return nil
	}
	var dirs []string
	for _, line := range strings.Split(string(text), "\n") {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 2 && fields[0] == "include" {
			files, _ := filepath.Glob(fields[1])
			for _, file := range files {
				dirs = append(dirs, readLibraryConf(file, depth+1)...)
			}
		} else if len(fields) > 0 {
			dirs = append(dirs, fields[0])
		}
	}
	return dirs
}

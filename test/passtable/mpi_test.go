package passtable

import (
	"debug/elf"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// mpi is one installed MPI.
type mpi struct {
	mpijob.MPI
	title  string // name and version, as the report gives them
	soname string // of the library that has the MPI_ symbols
	// noSharedMemory lets one rank start although /dev/shm is full.
	noSharedMemory string
}

// families are all MPIs of the table.
func families() []*mpi {
	return []*mpi{
		{mpijob.All[0], "Open MPI", "libmpi.so.40", "OMPI_MCA_btl=self"},
		{mpijob.All[1], "MPICH", "libmpich.so.12", "UCX_TLS=self,tcp"},
	}
}

var versionPattern = regexp.MustCompile(`\d+\.\d+\.\d+`)

// require completes m from what is installed.
func (m *mpi) require(t *testing.T) {
	t.Helper()
	mpijob.Need(t, m.Missing())
	out, err := exec.Command(m.Launcher, "--version").Output()
	if err != nil {
		t.Fatalf("%s --version: %v", m.Launcher, err)
	}
	m.title += " " + versionPattern.FindString(string(out))
}

// library is the path of the MPI library.
func (m *mpi) library() (string, error) {
	out, err := exec.Command("gcc", "-print-file-name="+m.soname).Output()
	if err != nil {
		return "", fmt.Errorf("looking for %s: %w", m.soname, err)
	}
	path := strings.TrimSpace(string(out))
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("looking for %s: gcc does not know it", m.soname)
	}
	return path, nil
}

// exports tells whether the MPI library has the function.
func (m *mpi) exports(function string) (bool, error) {
	path, err := m.library()
	if err != nil {
		return false, err
	}
	file, err := elf.Open(path)
	if err != nil {
		return false, fmt.Errorf("reading the symbols of %s: %w", path, err)
	}
	defer file.Close()
	symbols, err := file.DynamicSymbols()
	if err != nil {
		return false, fmt.Errorf("reading the symbols of %s: %w", path, err)
	}
	for _, s := range symbols {
		if s.Name == function && s.Section != elf.SHN_UNDEF {
			return true, nil
		}
	}
	return false, nil
}

// reason is why a row cannot run on an MPI. holds gives an error if it is not true.
type reason struct {
	text  string
	holds func(h *harness, m *mpi) error
}

// lacks is the reason that the library has no such function.
func lacks(function string) *reason {
	return &reason{
		text: "lacks " + function,
		holds: func(_ *harness, m *mpi) error {
			has, err := m.exports(function)
			if err == nil && has {
				err = fmt.Errorf("%s has %s: the row has to run", m.title, function)
			}
			return err
		},
	}
}

// cannotSpawn is the reason that MPI_Comm_spawn fails without the shim, too.
func cannotSpawn() *reason {
	return &reason{
		text: "MPI_Comm_spawn fails without the shim, too",
		holds: func(h *harness, m *mpi) error {
			r := row{program: "spawn.c", ranks: 2}
			got, err := h.run(m, &r, native)
			if err == nil && got.status == 0 {
				err = fmt.Errorf("MPI_Comm_spawn works with %s: the row has to run", m.title)
			}
			return err
		},
	}
}

// noPython is the reason that the installed mpi4py is not built on this MPI.
func noPython() *reason {
	return &reason{
		text: "the installed mpi4py is built on another MPI",
		holds: func(_ *harness, m *mpi) error {
			out, err := exec.Command(python, "-c",
				"from mpi4py import rc; rc.initialize = False; from mpi4py import MPI; print(MPI.Get_library_version())").Output()
			name, _, _ := strings.Cut(m.title, " 4")
			if err == nil && strings.HasPrefix(string(out), name) {
				err = fmt.Errorf("mpi4py is built on %s: the row has to run", m.title)
			}
			return err
		},
	}
}

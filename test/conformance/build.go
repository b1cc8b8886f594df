package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/mpitrace/mpitrace/test/mpijob"
)

// openMPIDefines bring back what Open MPI hides of MPI-1 and the suite uses.
const openMPIDefines = "-DOMPI_OMIT_MPI1_COMPAT_DECLS=0 -DOMPI_REMOVED_USE_STATIC_ASSERT=0" +
	" -DMPI_COMBINER_HVECTOR_INTEGER=OMPI_WAS_MPI_COMBINER_HVECTOR_INTEGER" +
	" -DMPI_COMBINER_HINDEXED_INTEGER=OMPI_WAS_MPI_COMBINER_HINDEXED_INTEGER" +
	" -DMPI_COMBINER_STRUCT_INTEGER=OMPI_WAS_MPI_COMBINER_STRUCT_INTEGER"

// configureSuite configures the suite for one MPI in cache/<name>, unless
// that is done, and returns that folder.
func configureSuite(cache, source string, mpi mpijob.MPI) (string, error) {
	build := filepath.Join(cache, mpi.Name)
	if _, err := os.Stat(filepath.Join(build, "configured")); err == nil {
		return build, nil
	}
	if err := os.MkdirAll(build, 0o755); err != nil {
		return "", fmt.Errorf("make %s: %w", build, err)
	}
	fortran := "-O1 -fallow-argument-mismatch"
	args := []string{
		"--enable-fortran=all", "--disable-cxx", "--disable-dependency-tracking",
		"MPICC=" + mpi.CC, "MPIF77=mpif77." + mpi.Name, "MPIFC=" + mpi.FC,
		"CFLAGS=-O1 -w", "FFLAGS=" + fortran, "FCFLAGS=" + fortran,
	}
	if mpi.Name == "openmpi" {
		args = append(args, "CPPFLAGS="+openMPIDefines)
	}
	if err := quietly(build, filepath.Join(source, "configure"), args...); err != nil {
		return "", err
	}
	return build, os.WriteFile(filepath.Join(build, "configured"), nil, 0o644)
}

// buildAll builds every program of the folders. Programs that this MPI
// cannot link (calls of a newer standard) are left out: the native run finds
// them missing.
func buildAll(build string, dirs []string, jobs int) error {
	for _, dir := range append([]string{"util", "dtpools"}, dirs...) {
		stamp := filepath.Join(build, dir, "built")
		if _, err := os.Stat(stamp); err == nil {
			continue
		}
		log, err := os.Create(filepath.Join(build, "make-"+dir+".log"))
		if err != nil {
			return fmt.Errorf("log of the build: %w", err)
		}
		cmd := exec.Command("nice", "-n", "19", "make", "-k", "-j"+strconv.Itoa(jobs), "-C", dir)
		cmd.Dir, cmd.Stdout, cmd.Stderr = build, log, log
		err = cmd.Run()
		log.Close()
		if err != nil && (dir == "util" || dir == "dtpools") {
			return fmt.Errorf("build %s of the suite (see %s): %w", dir, log.Name(), err)
		}
		if err := os.WriteFile(stamp, nil, 0o644); err != nil {
			return fmt.Errorf("mark %s as built: %w", dir, err)
		}
	}
	return nil
}

// buildTests builds just the programs that these tests run.
func buildTests(build string, tests []suiteTest, jobs int) error {
	if err := buildAll(build, nil, jobs); err != nil {
		return err
	}
	programs := map[string]map[string]bool{}
	for _, t := range tests {
		if programs[t.Dir] == nil {
			programs[t.Dir] = map[string]bool{}
		}
		programs[t.Dir][t.Prog] = true
	}
	for _, dir := range slices.Sorted(maps.Keys(programs)) {
		args := []string{"-j" + strconv.Itoa(jobs), "-C", dir}
		args = append(args, slices.Sorted(maps.Keys(programs[dir]))...)
		if err := quietly(build, "make", args...); err != nil {
			return fmt.Errorf("build tests of %s: %w", dir, err)
		}
	}
	return nil
}

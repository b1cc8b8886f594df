package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// suiteTest is one line of a test list of the suite.
type suiteTest struct {
	Name   string   // dir/program ranks arg=… env=…: unique within the suite
	Dir    string   // folder below test/mpi that holds the program
	Prog   string   // program in that folder
	Ranks  int      // processes to start
	Args   []string // arguments of the program
	Env    []string // KEY=VALUE for the ranks
	Memory float64  // GiB that all ranks need together; 0: no remark
}

// defaultRanks is what the suite starts where a line names no number.
const defaultRanks = 2

// readSuite reads the test lists of the given folders, and of the folders
// that these lists name, in their order. Lines that name a test twice are
// read once.
func readSuite(build, source string, dirs []string) ([]suiteTest, error) {
	seen := map[string]bool{}
	var tests []suiteTest
	for _, dir := range dirs {
		found, err := readDir(build, source, dir)
		if err != nil {
			return nil, err
		}
		for _, t := range found {
			if !seen[t.Name] {
				seen[t.Name] = true
				tests = append(tests, t)
			}
		}
	}
	return tests, nil
}

// readDir reads testlist and testlist.dtp of one folder: configured ones lie
// in the build tree, the others in the source.
func readDir(build, source, dir string) ([]suiteTest, error) {
	var tests []suiteTest
	for _, list := range []string{"testlist", "testlist.dtp"} {
		f, err := openFirst(filepath.Join(build, dir, list), filepath.Join(source, dir, list))
		if err != nil {
			if list == "testlist" {
				return nil, fmt.Errorf("folder %s of the suite has no test list: %w", dir, err)
			}
			continue
		}
		found, err := parseTestlist(f, dir)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("read %s/%s: %w", dir, list, err)
		}
		for _, t := range found {
			if t.Ranks > 0 {
				tests = append(tests, t)
				continue
			}
			inner, err := readDir(build, source, t.Dir)
			if err != nil {
				return nil, err
			}
			tests = append(tests, inner...)
		}
	}
	return tests, nil
}

func openFirst(paths ...string) (*os.File, error) {
	var first error
	for _, path := range paths {
		f, err := os.Open(path)
		if err == nil {
			return f, nil
		}
		if first == nil {
			first = err
		}
	}
	return nil, first
}

// otherLists are folders that the list of a folder names although they are no
// part of the gate.
var otherLists = map[string]bool{
	"f77/rma": true, "f77/io": true, "f77/spawn": true,
	"f08/rma": true, "f08/io": true, "f08/spawn": true,
	"f90/rma": true, "f90/io": true, "f90/spawn": true,
	"errors/f77": true, "errors/f90": true, "errors/f08": true, "errors/cxx": true, "errors/faults": true,
	"threads/mpi_t": true,
}

// parseTestlist reads one list. A line without a number of ranks and
// without options that is the name of a known folder comes back with Ranks
// 0 and Dir set; the caller descends into it.
func parseTestlist(r io.Reader, dir string) ([]suiteTest, error) {
	var tests []suiteTest
	scan := bufio.NewScanner(r)
	for scan.Scan() {
		line, _, _ := strings.Cut(scan.Text(), "#")
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "!") || otherLists[dir+"/"+fields[0]] {
			continue
		}
		if isFolder(dir, fields) {
			tests = append(tests, suiteTest{Dir: filepath.Join(dir, fields[0])})
			continue
		}
		t, err := parseTest(dir, fields)
		if err != nil {
			return nil, err
		}
		tests = append(tests, t)
	}
	return tests, scan.Err()
}

// isFolder tells the lists that name only folders from lists of programs.
func isFolder(dir string, fields []string) bool {
	return len(fields) == 1 && slices.Contains([]string{"f77", "f90", "f08", "threads", "errors"}, dir)
}

func parseTest(dir string, fields []string) (suiteTest, error) {
	prog := filepath.Join(dir, fields[0])
	t := suiteTest{Dir: filepath.Dir(prog), Prog: filepath.Base(prog), Ranks: defaultRanks}
	name := []string{prog}
	rest := fields[1:]
	if len(rest) > 0 && !strings.Contains(rest[0], "=") {
		ranks, err := strconv.Atoi(rest[0])
		if err != nil || ranks < 1 {
			return t, fmt.Errorf("%s: %q is no number of ranks", prog, rest[0])
		}
		t.Ranks, rest = ranks, rest[1:]
	}
	name = append(name, strconv.Itoa(t.Ranks))
	for _, option := range rest {
		key, value, _ := strings.Cut(option, "=")
		switch key {
		case "arg":
			t.Args = append(t.Args, value)
			name = append(name, option)
		case "env":
			t.Env = append(t.Env, value)
			name = append(name, option)
		case "mem":
			memory, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return t, fmt.Errorf("%s: mem=%s is no number", prog, value)
			}
			t.Memory = memory
		}
	}
	t.Name = strings.Join(name, " ")
	return t, nil
}
